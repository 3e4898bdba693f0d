import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type Execution, ExecutionSchema, ExecutionStatus, StepKind } from "../../src/gen/stepwell/v1/types_pb.ts";
import { stepOf, tickText, ticks, within, zoomed } from "../../src/model/axis.ts";
import { bounds, extent, isOpen, rows } from "../../src/model/bars.ts";

/** An attempt at the task `a`, by its moments; 0: there is none. */
function attempt(number: number, offered: number, leased: number, ended: number, status: ExecutionStatus): Execution {
  return create(ExecutionSchema, {
    executionId: `task:a#${number}`,
    kind: StepKind.TASK,
    taskId: "a",
    attempt: number,
    status,
    offeredTime: timestampFromMs(offered),
    ...(leased ? { leasedTime: timestampFromMs(leased) } : {}),
    ...(ended ? { endedTime: timestampFromMs(ended) } : {}),
  });
}

test("the attempts at a step are bars of one row, from offer to end", () => {
  const found = rows([
    attempt(1, 1_000, 1_100, 1_200, ExecutionStatus.LOST),
    attempt(2, 1_200, 1_300, 0, ExecutionStatus.LEASED),
    create(ExecutionSchema, { kind: StepKind.PLAN, iteration: 1, offeredTime: timestampFromMs(900) }),
  ]);
  assert.deepEqual(found.map((one) => [one.title, one.bars.length]), [["a", 2], ["plan (iteration 1)", 1]]);
  assert.deepEqual(bounds(found, 5_000), [900, 5_000]);
  assert.deepEqual(extent(found[0]!, 5_000), { from: 1_000, to: 5_000, took: 3_900, rests: false });
});

test("a step that asks a person rests until the answer, and until now where there is none", () => {
  const asked = attempt(1, 1_000, 1_100, 2_000, ExecutionStatus.NEEDS_ANSWER);
  const [open] = rows([asked]);
  assert.deepEqual(open!.rests.map((one) => [one.from, one.to]), [[2_000, 0]]);
  assert.ok(isOpen(open!));
  assert.deepEqual(bounds([open!], 900_000), [1_000, 900_000]);
  assert.deepEqual(extent(open!, 900_000), { from: 1_000, to: 900_000, took: 898_000, rests: true });
  const [answered] = rows([asked, attempt(2, 60_000, 60_100, 60_500, ExecutionStatus.COMPLETED)]);
  assert.deepEqual(answered!.rests.map((one) => [one.from, one.to]), [[2_000, 60_000]]);
  assert.ok(!isOpen(answered!));
  assert.deepEqual(extent(answered!, 900_000), { from: 1_000, to: 60_500, took: 59_400, rests: false });
});

test("a step that sleeps rests until its task or its run is over", () => {
  const slept = attempt(1, 1_000, 1_100, 2_000, ExecutionStatus.SUSPENDED);
  const [row] = rows([slept], (taskId) => (taskId === "a" ? 30_000 : 0));
  assert.deepEqual(row!.rests.map((one) => [one.from, one.to]), [[2_000, 30_000]]);
  assert.deepEqual(bounds([row!], 900_000), [1_000, 30_000]);
});

test("an axis has at most as many marks as fit, at round times after the start", () => {
  for (const length of [3, 999, 16_000, 3_600_000, 1e9, 1e12]) {
    for (const most of [3, 9, 20]) {
      const step = stepOf(length, most);
      assert.ok(ticks({ from: 70, to: 70 + length }, 70, step).length <= most + 1, `${length} ${most}`);
    }
  }
  assert.deepEqual(ticks({ from: 1_000, to: 17_000 }, 1_000, 5_000), [1_000, 6_000, 11_000, 16_000]);
  assert.deepEqual(ticks({ from: 7_500, to: 12_000 }, 1_000, 2_000), [9_000, 11_000]);
});

test("a mark's text is as exact as the distance of the marks", () => {
  const texts = (...pairs: [at: number, step: number][]) => pairs.map(([at, step]) => tickText(at, step));
  assert.deepEqual(texts([0, 50], [250, 50], [1_250, 50], [1_500, 500]), ["0ms", "250ms", "1.25s", "1.5s"]);
  assert.deepEqual(texts([0, 5_000], [55_000, 5_000], [60_000, 30_000], [90_000, 30_000]), ["0s", "55s", "1m00s", "1m30s"]);
  assert.deepEqual(texts([0, 300_000], [300_000, 300_000], [7_500_000, 300_000]), ["0m", "5m", "2h05m"]);
  assert.deepEqual(texts([7_200_000, 3_600_000], [93_600_000, 3_600_000], [172_800_000, 86_400_000]), ["2h", "1d02h", "2d"]);
});

test("a window zooms around a place, and stays within the whole", () => {
  const whole = { from: 0, to: 1_000 };
  assert.deepEqual(zoomed(whole, whole, 0.5, 0.5), { from: 250, to: 750 });
  assert.deepEqual(zoomed({ from: 250, to: 750 }, whole, 0.5, 0), { from: 250, to: 500 });
  assert.deepEqual(zoomed({ from: 800, to: 1_000 }, whole, 2, 0), { from: 600, to: 1_000 });
  assert.equal(zoomed({ from: 250, to: 750 }, whole, 2, 0.5), undefined);
  assert.deepEqual(within({ from: -50, to: 50 }, whole), { from: 0, to: 100 });
  assert.deepEqual(within({ from: 950, to: 1_050 }, whole), { from: 900, to: 1_000 });
});
