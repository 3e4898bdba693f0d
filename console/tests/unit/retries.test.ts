import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { ExecutionSchema, ExecutionStatus, StepKind } from "../../src/gen/stepwell/v1/types_pb.ts";
import { begins, delayed, dueOf } from "../../src/model/retries.ts";

/** An attempt at a task, offered at second 100; no delay: it may be leased at once. */
function attempt(taskId: string, number: number, status: ExecutionStatus, delayS: number, kind = "") {
  return create(ExecutionSchema, {
    kind: StepKind.TASK,
    taskId,
    attempt: number,
    status,
    offeredTime: timestampFromMs(100_000),
    ...(delayS ? { delay: { seconds: BigInt(delayS), nanos: 0 } } : {}),
    ...(kind ? { failure: { kind } } : {}),
  });
}

test("attempts that wait for a back-off stand with the failure before them, the next one first", () => {
  const found = delayed([
    attempt("late", 1, ExecutionStatus.FAILED, 0, "First"),
    attempt("late", 2, ExecutionStatus.FAILED, 5, "Second"),
    attempt("soon", 1, ExecutionStatus.READY, 7),
    attempt("late", 3, ExecutionStatus.READY, 60),
    attempt("free", 1, ExecutionStatus.READY, 0),
    attempt("runs", 2, ExecutionStatus.LEASED, 5),
  ]);
  assert.deepEqual(
    found.map((one) => [one.execution.taskId, one.failed?.failure?.kind, one.due]),
    [["soon", undefined, 107_000], ["late", "Second", 160_000]],
  );
});

test("an attempt that a worker has had is due no more", () => {
  assert.equal(dueOf(attempt("a", 2, ExecutionStatus.READY, 5)), 105_000);
  assert.equal(dueOf(attempt("a", 2, ExecutionStatus.LEASED, 5)), 0);
});

test("the time until an attempt begins is told in whole seconds, and no time is negative", () => {
  assert.deepEqual([500, 9_001, 59_000, 61_000, 3_600_000].map((one) => begins(one, 0)), ["in 1s", "in 10s", "in 59s", "in 1m01s", "in 1h00m"]);
  assert.equal(begins(1_000, 1_000), "as soon as a worker is free");
});
