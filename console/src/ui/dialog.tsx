// A dialog that sends a command: it shows what the server refuses, and closes when it is done.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Problem, problem, requestId } from "../api/client.ts";

interface Props {
  title: string;
  action: string;
  danger?: boolean;
  children?: ComponentChildren;
  /** Sends the command. The id is the same for each try of this dialog, so that nothing is done twice. */
  send: (requestId: string) => Promise<unknown>;
  close: () => void;
}

/** The words of an error that a form has found before anything was sent. */
function problemOf(error: unknown): Problem {
  if (error instanceof Error && error.name === "Error") {
    return { reason: "", message: error.message, faults: [] };
  }
  return problem(error);
}

export function Dialog(props: Props) {
  const element = useRef<HTMLDialogElement>(null);
  const [failed, setFailed] = useState<Problem>();
  const [busy, setBusy] = useState(false);
  const [id] = useState(requestId);
  useEffect(() => {
    element.current!.showModal();
  }, []);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    try {
      await props.send(id);
      props.close();
    } catch (error) {
      setFailed(problemOf(error));
      setBusy(false);
    }
  };
  return (
    <dialog ref={element} onClose={props.close} aria-label={props.title}>
      <form onSubmit={(event) => void submit(event)}>
        <h2>{props.title}</h2>
        {props.children}
        {failed && (
          <div class="problem" role="alert">
            <p>{failed.message}</p>
            {failed.faults.map((one) => (
              <p key={one.field + one.description}>
                {one.field && <code>{one.field}</code>} {one.description}
              </p>
            ))}
          </div>
        )}
        <div class="buttons">
          <button type="button" onClick={props.close}>
            Close
          </button>
          <button type="submit" class={props.danger ? "danger" : "primary"} disabled={busy}>
            {busy ? "Sending …" : props.action}
          </button>
        </div>
      </form>
    </dialog>
  );
}

/** A field for why something is done. */
export function Reason(props: { value: string; set: (value: string) => void }) {
  return (
    <label class="field">
      <span>Why (optional)</span>
      <input value={props.value} maxLength={4096} onInput={(e) => props.set(e.currentTarget.value)} />
    </label>
  );
}
