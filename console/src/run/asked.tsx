// The open questions of a run, or of one of its tasks, with their answers.
import type { RunStore } from "../api/runStore.ts";
import { may } from "../api/session.ts";
import { type Question, QuestionStatus } from "../gen/stepwell/v1/types_pb.ts";
import { firstLine, ms } from "../model/text.ts";
import { Answer } from "../ui/answer.tsx";
import { Time } from "../ui/parts.tsx";
import { TextView } from "../ui/payload.tsx";

const SHOWN_MAX = 3;

/** With `isFolded` each is one line that opens. */
export function Asked({ store, taskId, isFolded = false }: { store: RunStore; taskId?: string; isFolded?: boolean }) {
  const open = [...store.view!.questions.values()].filter(
    (one) => one.status === QuestionStatus.OPEN && (taskId === undefined || one.taskId === taskId),
  );
  if (!open.length) return null;
  return (
    <>
      {open.slice(0, SHOWN_MAX).map((one) =>
        isFolded ? (
          <details key={one.questionId} class="note asks">
            <summary>
              Asks a person: {firstLine(one.prompt)} <Since of={one} />
            </summary>
            <Body store={store} question={one} />
          </details>
        ) : (
          <section key={one.questionId} class="note asks">
            <small>
              Asks a person <Since of={one} />
            </small>
            <Body store={store} question={one} />
          </section>
        ),
      )}
      {open.length > SHOWN_MAX && (
        <a href={`/inbox?run=${encodeURIComponent(store.runId)}`}>All {open.length} questions are in the inbox</a>
      )}
    </>
  );
}

function Since({ of }: { of: Question }) {
  return (
    <small>
      (<Time at={ms(of.createdTime)} />)
    </small>
  );
}

function Body({ store, question }: { store: RunStore; question: Question }) {
  return (
    <div class="stack">
      <div class="asked">
        <TextView text={question.prompt} />
      </div>
      {question.arguments && <TextView text={question.arguments} />}
      {may("run:write") && <Answer runId={store.runId} question={question} answered={() => store.refresh()} />}
    </div>
  );
}
