// The map of a timeline: all of it, and the part that is shown, which can be moved.
import { useMemo } from "preact/hooks";
import { ExecutionStatus } from "../gen/stepwell/v1/types_pb.ts";
import { type Window, within } from "../model/axis.ts";
import type { Row } from "../model/bars.ts";
import { toneOf } from "./attempt.tsx";

const HEIGHT = 40;
const WIDTH = 1_000;
/** Of more rows, some are drawn: the map has no more lines. */
const ROWS_MAX = 400;

interface Props {
  all: readonly Row[];
  whole: Window;
  shown: Window;
  now: number;
  changes: number;
  show: (next: Window) => void;
}

/** The keys do the same, so readers of the screen go without the map. */
export function TimeMap({ all, whole, shown, now, changes, show }: Props) {
  const length = whole.to - whole.from;
  const lines = useMemo(() => draw(all, whole, now), [all, changes, Math.floor(now / 1_000), whole.from]);
  const x = (at: number) => (WIDTH * (at - whole.from)) / length;
  const move = (event: PointerEvent) => {
    if (!event.buttons) return;
    const { left, width } = (event.currentTarget as Element).getBoundingClientRect();
    const middle = whole.from + (length * (event.clientX - left)) / width;
    const half = (shown.to - shown.from) / 2;
    show(within({ from: middle - half, to: middle + half }, whole));
  };
  return (
    <svg
      class="time-map"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      aria-hidden="true"
      onPointerDown={move}
      onPointerMove={move}
    >
      {lines.map(([tone, line]) => (
        <path key={tone} class={`task-${tone}`} d={line} />
      ))}
      <rect class="window" x={x(shown.from)} y="0" width={Math.max(2, x(shown.to) - x(shown.from))} height={HEIGHT} />
    </svg>
  );
}

/** One path for all bars of one colour. */
function draw(all: readonly Row[], whole: Window, now: number): [tone: string, line: string][] {
  const lines = new Map<string, string>();
  const every = Math.ceil(all.length / ROWS_MAX);
  const x = (at: number) => ((WIDTH * (at - whole.from)) / (whole.to - whole.from)).toFixed(1);
  all.forEach(({ bars, rests }, index) => {
    if (index % every) return;
    const y = ((HEIGHT * (index + 0.5)) / all.length).toFixed(1);
    const add = (tone: string, from: number, to: number) =>
      lines.set(tone, `${lines.get(tone) ?? ""}M${x(from)},${y}H${x(to)}`);
    for (const { leased, ended, status } of bars) {
      if (leased) add(status === ExecutionStatus.NEEDS_ANSWER ? "blocked" : toneOf(status), leased, ended || now);
    }
    for (const { from, to } of rests) add("blocked", from, to || now);
  });
  return [...lines];
}
