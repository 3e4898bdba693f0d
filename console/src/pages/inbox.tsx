// What people are asked for, over all runs or of one, and their answers.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { readBefore } from "../api/before.ts";
import { openQuestions } from "../api/badge.ts";
import { Inbox } from "../api/inbox.ts";
import { may } from "../api/session.ts";
import type { RunQuestion } from "../gen/stepwell/v1/orchestrator_pb.ts";
import { QuestionKind } from "../gen/stepwell/v1/types_pb.ts";
import { RunView } from "../model/runView.ts";
import { visible } from "../model/strange.ts";
import { count, firstLine, moment, ms, shortId, spanMs, word } from "../model/text.ts";
import { eventText, runTitle, subject } from "../model/words.ts";
import { Answer } from "../ui/answer.tsx";
import { useKeys } from "../ui/keyboard.ts";
import { Empty, Problems, Time, useLoad, useTitle } from "../ui/parts.tsx";
import { TextView } from "../ui/payload.tsx";
import { runPath, useRoute } from "../ui/router.ts";
import { useChanges } from "../ui/store.ts";

const FIELD = ":is(button, input, select, textarea):not(:disabled)";

export function InboxPage() {
  const { query } = useRoute();
  const runId = query.get("run") ?? "";
  const inbox = useMemo(() => new Inbox(runId), [runId]);
  useEffect(() => inbox.start(), [inbox]);
  useChanges(inbox);
  useTitle("Inbox");
  const { questions } = inbox;
  useEffect(() => {
    if (questions && !runId) openQuestions.set(questions.length);
  }, [questions, runId]);
  const list = useRef<HTMLDivElement>(null);
  const cards = () => [...list.current!.querySelectorAll("article")];
  const current = () => cards().findIndex((one) => one.contains(document.activeElement));
  const move = (step: number) => {
    const all = cards();
    all[Math.max(0, Math.min(all.length - 1, current() + step))]?.focus();
  };
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    Enter: (event) => {
      const active = event.target as HTMLElement;
      // On a link or a button the key does what it does everywhere.
      if (active.matches("a, button, summary")) active.click();
      else cards()[Math.max(0, current())]?.querySelector<HTMLElement>(`.answer ${FIELD}`)?.focus();
    },
  });
  return (
    <div class="page narrow" ref={list}>
      <div class="row">
        <h1>Inbox</h1>
        <small role="status">{questions && count(questions.length, "open question")}</small>
        {runId && (
          <a class="chip" href="/inbox">
            of run {shortId(runId)} only ✕
          </a>
        )}
      </div>
      <Problems of={inbox.problem} />
      {!questions && !inbox.problem && <Empty>Reading the questions …</Empty>}
      {questions?.length === 0 && (
        <Empty>
          Nobody is asked for anything. A step asks with <code>raise NeedsAnswer("…")</code>;
          its run waits until it is answered here, or by <code>stepwell answer</code>.
        </Empty>
      )}
      {questions?.map((one, at) => (
        <QuestionCard
          key={`${one.runId}/${one.question!.questionId}`}
          of={one}
          isNewest={at === newest(questions)}
          answered={() => inbox.read()}
        />
      ))}
    </div>
  );
}

/** The place of the question that was asked last. */
function newest(questions: RunQuestion[]): number {
  const at = questions.map((one) => ms(one.question!.createdTime));
  return at.indexOf(Math.max(...at));
}

function QuestionCard({ of, isNewest, answered }: { of: RunQuestion; isNewest: boolean; answered: () => Promise<void> }) {
  const question = of.question!;
  const expires = spanMs(question.expires);
  const [open, setOpen] = useState(isNewest);
  return (
    <article class="card inbox-item" tabIndex={-1} aria-label={`Question of run ${shortId(of.runId)}`}>
      <div class="row quiet">
        <a href={runPath(of.runId, "", question.taskId ? { task: question.taskId } : {})}>
          {shortId(of.runId)} {question.taskId}
        </a>
        <span>{word(QuestionKind, question.kind)}</span>
        <span>
          asked <Time at={ms(question.createdTime)} />
        </span>
        {expires > 0 && <span>expires at {moment(ms(question.createdTime) + expires)}</span>}
      </div>
      <div class="asked">
        <TextView text={question.prompt} />
      </div>
      {question.arguments && <TextView text={question.arguments} />}
      {may("run:write") && <Answer runId={of.runId} question={question} answered={answered} />}
      <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>What happened before</summary>
        {open && <Before of={of} />}
      </details>
    </article>
  );
}

function Before({ of }: { of: RunQuestion }) {
  const { value, problem } = useLoad(of.question!.questionId, () => readBefore(of));
  if (problem) return <Problems of={problem} />;
  if (!value) return <p class="quiet">Reading …</p>;
  const view = new RunView(value.run);
  return (
    <div class="stack before">
      <p>
        <b>{runTitle(value.run)}</b>
      </p>
      <ol class="plain-list">
        {value.events.map((one) => (
          <li key={String(one.number)}>
            <small>
              <Time at={ms(one.time)} />
            </small>{" "}
            <b>{visible(subject(view, one))}</b> {eventText(one)}
          </li>
        ))}
      </ol>
      {value.messages.map((one) => (
        <div key={one.number} class="said other">
          <small>{firstLine(one.role)}</small>
          <TextView text={one.content} />
        </div>
      ))}
    </div>
  );
}
