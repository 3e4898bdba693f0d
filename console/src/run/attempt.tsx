// An attempt at a step: how it ended, why, and what it left.
import { useState } from "preact/hooks";
import { api, type Problem, problem } from "../api/client.ts";
import type { RunStore } from "../api/runStore.ts";
import { type Execution, ExecutionStatus, type Failure } from "../gen/stepwell/v1/types_pb.ts";
import { visible } from "../model/strange.ts";
import { cost, count, ms, number, span, spanMs, word } from "../model/text.ts";
import { Problems, Time, useNow } from "../ui/parts.tsx";
import { Foreign } from "../ui/foreign.tsx";
import { TextView } from "../ui/payload.tsx";
import { ResolveButton } from "./taskActions.tsx";

/** A failure with its traceback and the fields at fault. */
export function FailureView({ failure }: { failure: Failure | undefined }) {
  if (!failure || (!failure.kind && !failure.message)) return null;
  return (
    <div class="problem failure">
      <p>
        <b>{visible(failure.kind)}</b> <Foreign text={failure.message} />
      </p>
      {failure.violations.length > 0 && (
        <ul>
          {failure.violations.map((one) => (
            <li key={one.field + one.description}>
              <code>{visible(one.field)}</code> {visible(one.description)}
            </li>
          ))}
        </ul>
      )}
      {failure.retryAfter && <p>It asked to be tried again no sooner than after {span(spanMs(failure.retryAfter))}.</p>}
      {failure.details && (
        <details open>
          <summary>Details</summary>
          <pre tabIndex={0}>
            <Foreign text={failure.details} />
          </pre>
        </details>
      )}
    </div>
  );
}

const GOOD: ReadonlySet<ExecutionStatus> = new Set([ExecutionStatus.COMPLETED]);
const BAD: ReadonlySet<ExecutionStatus> = new Set([
  ExecutionStatus.FAILED,
  ExecutionStatus.TIMED_OUT,
  ExecutionStatus.LOST,
  ExecutionStatus.UNKNOWN_OUTCOME,
]);

/** The class that an attempt's end is coloured by. */
export function toneOf(status: ExecutionStatus): string {
  if (GOOD.has(status)) return "completed";
  if (BAD.has(status)) return "failed";
  return status === ExecutionStatus.LEASED ? "running" : "pending";
}

export function Attempt({ store, execution }: { store: RunStore; execution: Execution }) {
  const current = useNow();
  const leased = ms(execution.leasedTime);
  const ended = ms(execution.endedTime);
  const { usage } = execution;
  const facts = [
    execution.workerId && `on ${execution.workerId}`,
    leased && span((ended || current) - leased),
    spanMs(execution.delay) && !leased && `after ${span(spanMs(execution.delay))}`,
    execution.begun && "had begun its effect",
    execution.journalEntries && `${count(execution.journalEntries, "call")} recorded`,
    usage && (usage.inputTokens || usage.outputTokens) && `${number(usage.inputTokens)} + ${number(usage.outputTokens)} tokens`,
    usage?.costMicros && `cost ${cost(usage.costMicros)}`,
    usage?.model,
    execution.session?.sessionId && `session ${execution.session.backend} ${execution.session.sessionId}`,
  ];
  return (
    <div class="attempt">
      <div class="row">
        <b>{number(execution.attempt)}</b>
        <span class={`mark task-${toneOf(execution.status)}`}>{word(ExecutionStatus, execution.status)}</span>
        <Time at={ended || leased || ms(execution.offeredTime)} />
      </div>
      <small>{facts.filter(Boolean).join(" · ")}</small>
      {execution.unknownCall && (
        <p>
          Nobody knows what became of the call <code>{execution.unknownCall}</code>.
        </p>
      )}
      {execution.status === ExecutionStatus.UNKNOWN_OUTCOME && <ResolveButton store={store} execution={execution} />}
      <FailureView failure={execution.failure} />
      {ended > 0 && <RecordView runId={store.runId} executionId={execution.executionId} />}
    </div>
  );
}

/** The prompt and the response that an attempt recorded, read when they are asked for. */
function RecordView({ runId, executionId }: { runId: string; executionId: string }) {
  const [found, setFound] = useState<{ prompt: string; response: string }>();
  const [failed, setFailed] = useState<Problem>();
  const read = async () => {
    const prompt = new TextDecoder();
    const response = new TextDecoder();
    const result = { prompt: "", response: "" };
    let pageToken = "";
    try {
      do {
        const page = await api.readTranscript({ runId, executionId, pageToken });
        result.prompt += prompt.decode(page.prompt, { stream: true });
        result.response += response.decode(page.response, { stream: true });
        pageToken = page.nextPageToken;
      } while (pageToken);
      setFound(result);
    } catch (error) {
      setFailed(problem(error));
    }
  };
  if (failed) return <Problems of={failed} />;
  if (!found) {
    return (
      <button type="button" class="small" onClick={() => void read()}>
        Prompt and response
      </button>
    );
  }
  if (!found.prompt && !found.response) return <small>It recorded neither prompt nor response.</small>;
  return (
    <>
      <h4>Prompt</h4>
      <Recorded text={found.prompt} />
      <h4>Response</h4>
      <Recorded text={found.response} />
    </>
  );
}

function Recorded({ text }: { text: string }) {
  if (!text) return <small>none</small>;
  return <TextView text={text} />;
}
