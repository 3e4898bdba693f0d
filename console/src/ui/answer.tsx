// The answer to a question: buttons, a form for its schema, or a text.
import { useRef, useState } from "preact/hooks";
import { api, type Problem, problem, requestId } from "../api/client.ts";
import { type Question, QuestionKind } from "../gen/stepwell/v1/types_pb.ts";
import { visible } from "../model/strange.ts";
import { SchemaFields, useSchemaForm } from "./form.tsx";
import { Problems } from "./parts.tsx";

interface AnswerProps {
  runId: string;
  question: Question;
  answered: () => Promise<void>;
}

/** The form of an answer, by the question's kind and schema. */
export function Answer({ runId, question, answered }: AnswerProps) {
  const [failed, setFailed] = useState<Problem>();
  const [busy, setBusy] = useState(false);
  const [replan, setReplan] = useState(false);
  const [reason, setReason] = useState("");
  // The same answer, sent again, is the same request.
  const last = useRef({ answer: "", id: "" });
  const send = async (text: string) => {
    const answer = JSON.stringify([text, replan, reason]);
    if (last.current.answer !== answer) last.current = { answer, id: requestId() };
    setBusy(true);
    try {
      await api.answerQuestion({
        runId,
        questionId: question.questionId,
        answer: { data: new TextEncoder().encode(text) },
        replan,
        reason,
        requestId: last.current.id,
      });
      setFailed(undefined);
      await answered();
    } catch (error) {
      setFailed(problem(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <div class="answer stack">
      {question.kind === QuestionKind.APPROVAL && !question.schema ? (
        <Choices
          busy={busy}
          choices={[
            ["true", "Yes"],
            ["false", "No"],
          ]}
          send={send}
        />
      ) : question.kind === QuestionKind.CHOICE ? (
        <Choices busy={busy} choices={question.choices.map((one) => [JSON.stringify(one), one])} send={send} />
      ) : (
        <Written schema={question.schema} busy={busy} send={send} setFailed={setFailed} />
      )}
      <details>
        <summary>The plan is wrong</summary>
        <div class="form">
          <label class="field check">
            <input type="checkbox" checked={replan} onChange={(event) => setReplan(event.currentTarget.checked)} />
            <span>Plan again before anything else is dispatched</span>
          </label>
          <label class="field">
            <span>Why; the planner is shown it</span>
            <input value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
          </label>
        </div>
      </details>
      <Problems of={failed} />
    </div>
  );
}

function Choices(props: { busy: boolean; choices: [json: string, label: string][]; send: (text: string) => unknown }) {
  return (
    <div class="row">
      {props.choices.map(([json, label]) => (
        <button key={json} type="button" disabled={props.busy} onClick={() => void props.send(json)}>
          {visible(label)}
        </button>
      ))}
    </div>
  );
}

interface WrittenProps {
  schema: string;
  busy: boolean;
  send: (text: string) => unknown;
  setFailed: (failed: Problem) => void;
}

/** An answer that is written: by the schema's form, or, where the schema says nothing, as text or JSON. */
function Written({ schema, busy, send, setFailed }: WrittenProps) {
  const form = useSchemaForm(schema);
  const [isText, setIsText] = useState(!schema);
  const [text, setText] = useState("");
  const submit = (event: Event) => {
    event.preventDefault();
    try {
      const json = isText ? JSON.stringify(text) : form.text();
      if (!json) throw new Error("An answer is needed.");
      void send(json);
    } catch (error) {
      setFailed({ reason: "", message: (error as Error).message, faults: [] });
    }
  };
  return (
    <form class="form" onSubmit={submit}>
      {isText ? (
        <label class="field">
          <span>Answer</span>
          <input value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
      ) : (
        <SchemaFields form={form} label="Answer" />
      )}
      {!schema && (
        <div>
          <button type="button" class="small" onClick={() => setIsText(!isText)}>
            {isText ? "Write JSON instead" : "Write text instead"}
          </button>
        </div>
      )}
      <div>
        <button type="submit" class="primary" disabled={busy}>
          Answer
        </button>
      </div>
    </form>
  );
}
