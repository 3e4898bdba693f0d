import assert from "node:assert/strict";
import { test } from "node:test";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { TaskEntrySchema } from "../../src/gen/stepwell/v1/orchestrator_pb.ts";
import {
  EventSchema,
  EventType,
  ExecutionStatus,
  RunSchema,
  RunStatus,
  StepKind,
  TaskStatus,
} from "../../src/gen/stepwell/v1/types_pb.ts";
import { EventLog, RunView } from "../../src/model/runView.ts";

function event(number: bigint, fields: MessageInitShape<typeof EventSchema> = {}) {
  return create(EventSchema, { number, version: number, ...fields });
}

function view(): RunView {
  const one = new RunView(create(RunSchema, { status: RunStatus.RUNNING, blockedOn: 1 }));
  one.addTasks([
    create(TaskEntrySchema, {
      task: { taskId: "a", revision: 1, status: TaskStatus.PENDING, failure: { kind: "Old" } },
      spec: { taskId: "a" },
    }),
  ]);
  return one;
}

test("an event changes the fields that it names and no others", () => {
  const one = view();
  one.apply(event(1n, { run: { iteration: 2 }, tasks: [{ taskId: "a", status: TaskStatus.RUNNING }] }));
  assert.equal(one.run.iteration, 2);
  assert.equal(one.run.status, RunStatus.RUNNING);
  assert.equal(one.run.lastEvent, 1n);
  assert.equal(one.tasks.get("a")?.status, TaskStatus.RUNNING);
  assert.equal(one.tasks.get("a")?.failure?.kind, "Old");
});

test("an event that comes twice changes nothing the second time", () => {
  const one = view();
  const twice = event(1n, { tasks: [{ taskId: "a", attempts: 3 }], run: { stages: { stages: [StepKind.REFLECT] } } });
  one.apply(twice);
  const before = structuredClone([one.run, one.tasks.get("a")]);
  one.apply(twice);
  assert.deepEqual([one.run, one.tasks.get("a")], before);
});

test("a list with presence is replaced, also by an empty one", () => {
  const one = view();
  one.apply(event(1n, { run: { stages: { stages: [StepKind.REFLECT, StepKind.SYNTHESIZE] } } }));
  assert.deepEqual(one.run.stages, [StepKind.REFLECT, StepKind.SYNTHESIZE]);
  one.apply(event(2n, { run: { stages: { stages: [] } }, tasks: [{ taskId: "a", waits: { waits: [{ call: "x" }] } }] }));
  assert.deepEqual(one.run.stages, []);
  assert.equal(one.tasks.get("a")?.waits.length, 1);
});

test("an execution is born by the event that has its kind, with the defaults that the event leaves out", () => {
  const one = view();
  one.apply(event(1n, { executions: [{ executionId: "x", status: ExecutionStatus.LEASED }] }));
  assert.equal(one.executions.size, 0);
  one.apply(event(2n, { executions: [{ executionId: "y", kind: StepKind.TASK, taskId: "a" }] }));
  assert.equal(one.executions.get("y")?.status, ExecutionStatus.READY);
  assert.equal(one.executions.get("y")?.attempt, 1);
});

test("a task that the plan just brought begins pending", () => {
  const one = view();
  one.apply(event(1n, { tasks: [{ taskId: "new", revision: 2 }] }));
  assert.equal(one.tasks.get("new")?.status, TaskStatus.PENDING);
});

test("a plan whose tasks have not been listed is noticed", () => {
  const one = view();
  assert.equal(one.lacksTasks(event(1n, { type: EventType.PLAN_ACCEPTED, planRevision: 2 })), true);
  assert.equal(one.lacksTasks(event(1n, { type: EventType.PLAN_ACCEPTED, planRevision: 1 })), false);
  assert.equal(one.lacksTasks(event(1n)), false);
});

test("the log takes each event once and in order, and refuses a gap", () => {
  const log = new EventLog();
  assert.equal(log.add(event(5n)), true);
  assert.equal(log.add(event(5n)), false);
  assert.equal(log.add(event(7n)), false);
  assert.equal(log.add(event(6n)), true);
  log.prepend([event(3n), event(4n), event(5n)]);
  assert.deepEqual(log.events.map((one) => one.number), [3n, 4n, 5n, 6n]);
  assert.deepEqual([log.first, log.last], [3n, 6n]);
});
