// A row of the timeline: a step, its attempts and waits, and how long it took.
import { ExecutionStatus, type Task, WaitKind } from "../gen/stepwell/v1/types_pb.ts";
import type { Window } from "../model/axis.ts";
import { type Bar, extent, type Rest, type Row } from "../model/bars.ts";
import { begins, dueOf } from "../model/retries.ts";
import type { RunView } from "../model/runView.ts";
import { moment, ms, span, spanMs, word } from "../model/text.ts";
import { setQuery } from "../ui/router.ts";

/** A piece of a row under the pointer. */
export interface Hinted {
  lines: string[];
  x: number;
  y: number;
}

interface Props {
  row: Row;
  view: RunView;
  window: Window;
  /** When the timeline begins, and the distance of its marks. */
  start: number;
  step: number;
  width: number;
  /** The present, while something goes on; otherwise 0. */
  now: number;
  /** When the timeline ends. */
  end: number;
  chosen: boolean;
  hint: (hinted: Hinted | undefined) => void;
}

const CHAR_WIDTH = 7;
const NUMBER_WIDTH = 12;

export function TimeRow(props: Props) {
  const { row, view, window, width, chosen } = props;
  const now = props.now || props.end;
  const task = row.taskId ? view.tasks.get(row.taskId) : undefined;
  const open = () => setQuery(row.taskId ? { task: row.taskId, step: "" } : { step: row.id, task: "" });
  const scale = width / (window.to - window.from);
  const x = (at: number) => (at - window.from) * scale;
  const grid = {
    backgroundSize: `${props.step * scale}px 100%`,
    backgroundPosition: `${x(props.start) % (props.step * scale)}px 0`,
  };
  const several = row.bars.length > 1;
  return (
    <div class={`time-row ${chosen ? "chosen" : ""}`}>
      <button type="button" class="link" onClick={open}>
        <span class="clip">
          {(row.taskId && view.specs.get(row.taskId)?.title) || row.title}
          {several && <small> ×{row.bars.length}</small>}
        </span>
      </button>
      <div class="bars" style={grid}>
        {row.bars.map((bar) => {
          const says = words(bar, now);
          const work = bar.leased || bar.ended || now;
          const free = Math.min(work, bar.offered + spanMs(bar.execution.delay));
          return (
            <>
              <Piece class="wait back-off" from={x(bar.offered)} to={x(free)} {...props} says={says} />
              <Piece class="wait" from={x(free)} to={x(work)} {...props} says={says} />
              {bar.leased > 0 && (
                <Piece
                  class={TONES[bar.status] ?? "task-pending"}
                  from={x(bar.leased)}
                  to={x(bar.ended || now)}
                  {...props}
                  says={says}
                  least={3}
                  number={several ? bar.execution.attempt : 0}
                />
              )}
            </>
          );
        })}
        {row.rests.map((rest) => (
          <Piece class="rest" from={x(rest.from)} to={x(rest.to || now)} {...props} says={restWords(rest, task, now)} least={3} />
        ))}
        {props.now > 0 && props.now <= window.to && <span class="present" style={{ left: `${x(props.now)}px` }} />}
        <Took {...props} x={x} task={task} present={now} />
      </div>
    </div>
  );
}

const TONES: Partial<Record<ExecutionStatus, string>> = {
  [ExecutionStatus.LEASED]: "task-running",
  [ExecutionStatus.COMPLETED]: "task-completed",
  [ExecutionStatus.FAILED]: "task-failed",
  [ExecutionStatus.TIMED_OUT]: "task-failed",
  [ExecutionStatus.LOST]: "task-failed lost",
  [ExecutionStatus.UNKNOWN_OUTCOME]: "task-failed lost",
  [ExecutionStatus.NEEDS_ANSWER]: "task-blocked",
  [ExecutionStatus.SUSPENDED]: "task-blocked",
};

interface PieceProps {
  class: string;
  from: number;
  to: number;
  width: number;
  says: string[];
  hint: Props["hint"];
  least?: number;
  /** The attempt's number, where a row has several; otherwise 0. */
  number?: number;
}

function Piece({ class: name, from, to, width, says, hint, least = 0, number = 0 }: PieceProps) {
  const left = Math.max(0, from);
  const wide = Math.max(least, Math.min(width, to) - left);
  if (to < 0 || from > width || wide <= 0) return null;
  const place = { left: `${Math.min(left, width - least)}px`, width: `${wide}px` };
  const tell = (event: PointerEvent) => hint({ lines: says, x: event.clientX, y: event.clientY });
  return (
    <span class={`bar ${name}`} style={place} role="img" aria-label={says.join(", ")} onPointerMove={tell} onPointerLeave={() => hint(undefined)}>
      {number > 0 && wide >= NUMBER_WIDTH && number}
    </span>
  );
}

/** How long the step took or has waited, beside its bars: after them, before them, or at the window's end. */
function Took({ row, width, x, task, present }: Props & { x: (at: number) => number; task: Task | undefined; present: number }) {
  const { from, to, took, rests } = extent(row, present);
  if (!took || x(to) < 0 || x(from) > width) return null;
  const { execution } = row.bars.at(-1)!;
  const due = dueOf(execution);
  const next = due && `attempt ${execution.attempt} begins ${begins(due, present)}`;
  const text = rests ? `${waiting(task, row.rests.at(-1))} ${span(took)}` : next || span(took);
  const room = text.length * CHAR_WIDTH + 8;
  const [left, right] = [Math.max(0, x(from)), Math.min(width, x(to))];
  const after = right + room <= width;
  const before = left >= room;
  const place = after ? { left: `${right + 6}px` } : before ? { right: `${width - left + 6}px` } : { right: "0" };
  return (
    <small class={`took ${after || before ? "" : "covers"}`} style={place}>
      {text}
    </small>
  );
}

/** What a step waits for, as far as it is known: of waits that are over it isn't. */
function waiting(task: Task | undefined, rest: Rest | undefined): string {
  if (rest?.after.status === ExecutionStatus.NEEDS_ANSWER) return "asks a person";
  if (rest?.after.status === ExecutionStatus.UNKNOWN_OUTCOME) return "outcome unknown";
  const kinds = new Set(rest?.to ? [] : task?.waits.map((one) => one.kind));
  if (kinds.has(WaitKind.QUESTION)) return "asks a person";
  if (kinds.has(WaitKind.BUDGET)) return "waits for a budget";
  if (kinds.has(WaitKind.SIGNAL)) return "waits for a signal";
  if (kinds.has(WaitKind.CHILD)) return "waits for a child run";
  return kinds.has(WaitKind.SLEEP) ? "sleeps" : "waits";
}

/** A moment with milliseconds, of one day. */
function clock(at: number): string {
  return `${moment(at).slice(11)}.${String(Math.floor(at % 1_000)).padStart(3, "0")}`;
}

function restWords(rest: Rest, task: Task | undefined, now: number): string[] {
  return [
    waiting(task, rest),
    `for ${span((rest.to || now) - rest.from)}`,
    `from ${clock(rest.from)}`,
    rest.to ? `to ${clock(rest.to)}` : "until now",
  ];
}

function words({ execution, offered, leased, ended, status }: Bar, now: number): string[] {
  const end = ended || now;
  const delay = spanMs(execution.delay);
  return [
    `attempt ${execution.attempt}: ${word(ExecutionStatus, status)}`,
    `offered ${clock(offered)}`,
    delay ? `held back for ${span(delay)}` : "",
    `waited ${span((leased || end) - offered)}`,
    leased ? `began ${clock(leased)}` : "",
    leased ? `took ${span(end - leased)}` : "",
    ms(execution.endedTime) ? `ended ${clock(ended)}` : "",
    execution.workerId ? `on ${execution.workerId}` : "",
    [execution.failure?.kind, execution.failure?.message.slice(0, 120)].filter(Boolean).join(": "),
  ].filter(Boolean);
}

/** The words for what is under the pointer. The bars have them as their names. */
export function Hint({ lines, x, y }: Hinted) {
  const right = x > innerWidth / 2 ? { right: `${innerWidth - x + 12}px` } : { left: `${x + 12}px` };
  const below = y > innerHeight / 2 ? { bottom: `${innerHeight - y + 12}px` } : { top: `${y + 12}px` };
  return (
    <div class="hint" style={{ ...right, ...below }} aria-hidden="true">
      {lines.map((one, index) => (
        <div key={index}>{index ? one : <b>{one}</b>}</div>
      ))}
    </div>
  );
}
