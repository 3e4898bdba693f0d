// What people are asked for, over all runs or of one, and their answers.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { api, type Problem, problem, requestId } from "../api/client.ts";
import { Inbox } from "../api/inbox.ts";
import { may } from "../api/session.ts";
import type { RunQuestion } from "../gen/stepwell/v1/orchestrator_pb.ts";
import { QuestionKind, type Question } from "../gen/stepwell/v1/types_pb.ts";
import { count, ms, shortId, spanMs, word } from "../model/text.ts";
import { SchemaFields, useSchemaForm } from "../ui/form.tsx";
import { Empty, Problems, Time } from "../ui/parts.tsx";
import { runPath, useRoute } from "../ui/router.ts";
import { useChanges } from "../ui/store.ts";

export function InboxPage() {
  const { query } = useRoute();
  const runId = query.get("run") ?? "";
  const inbox = useMemo(() => new Inbox(runId), [runId]);
  useEffect(() => inbox.start(), [inbox]);
  useChanges(inbox);
  useEffect(() => {
    document.title = "Inbox · Stepwell";
  }, []);
  const { questions } = inbox;
  return (
    <div class="page narrow">
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
      {questions?.length === 0 && <Empty>Nobody is asked for anything.</Empty>}
      {questions?.map((one) => (
        <QuestionCard key={`${one.runId}/${one.question!.questionId}`} of={one} answered={() => inbox.read()} />
      ))}
    </div>
  );
}

function QuestionCard({ of, answered }: { of: RunQuestion; answered: () => Promise<void> }) {
  const question = of.question!;
  const expires = spanMs(question.expires);
  return (
    <article class="card inbox-item" aria-label={`Question of run ${shortId(of.runId)}`}>
      <div class="row quiet">
        <a href={runPath(of.runId, "", question.taskId ? { task: question.taskId } : {})}>
          {shortId(of.runId)} {question.taskId}
        </a>
        <span>{word(QuestionKind, question.kind)}</span>
        <span>
          asked <Time at={ms(question.createdTime)} />
        </span>
        {expires > 0 && (
          <span>
            expires at <Until at={ms(question.createdTime) + expires} />
          </span>
        )}
      </div>
      <p class="asked">{question.prompt}</p>
      {may("run:write") && <Answer runId={of.runId} question={question} answered={answered} />}
    </article>
  );
}

function Until({ at }: { at: number }) {
  return <time dateTime={new Date(at).toISOString()}>{new Date(at).toLocaleString()}</time>;
}

interface AnswerProps {
  runId: string;
  question: Question;
  answered: () => Promise<void>;
}

function Answer({ runId, question, answered }: AnswerProps) {
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
    <>
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
    </>
  );
}

function Choices(props: { busy: boolean; choices: [json: string, label: string][]; send: (text: string) => unknown }) {
  return (
    <div class="row">
      {props.choices.map(([json, label]) => (
        <button key={json} type="button" disabled={props.busy} onClick={() => void props.send(json)}>
          {label}
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
