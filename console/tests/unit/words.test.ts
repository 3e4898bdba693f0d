import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import {
  EventSchema,
  EventType,
  PlanSchema,
  RunSchema,
  RunStatus,
  TaskSpecSchema,
} from "../../src/gen/stepwell/v1/types_pb.ts";
import { lines, planChanges } from "../../src/model/changes.ts";
import { planOf } from "../../src/model/planJson.ts";
import { maybeId, search } from "../../src/model/query.ts";
import { ago, cost, count, shortId, span } from "../../src/model/text.ts";
import { eventText, runTitle } from "../../src/model/words.ts";

test("durations, ages, costs and counts read as the command line prints them", () => {
  assert.deepEqual([310, 12_340, 185_000, 7_800_000, 273_600_000].map(span), ["0.31s", "12.3s", "3m05s", "2h10m", "3d04h"]);
  assert.deepEqual([400, 14_000, 180_000, 7_200_000, 300_000_000].map(ago), ["now", "14s ago", "3m ago", "2h ago", "3d ago"]);
  assert.deepEqual([0n, 1_500n, 2_500_000n, 1_234_567_890_123n].map(cost), ["0.00", "0.0015", "2.50", "1,234,567.890123"]);
  assert.deepEqual([count(1, "task"), count(1_200n, "task")], ["1 task", "1,200 tasks"]);
});

test("a UUID is shortened, and a name is not", () => {
  assert.equal(shortId("43cb84f4-2ec0-522e-b712-393ff88616a2"), "43cb84f4");
  assert.equal(shortId("my-own-run"), "my-own-run");
});

test("a search tells labels, ids and words apart", () => {
  assert.deepEqual(search(" team=ink Bees id:43cb a=b=c "), {
    labels: { team: "ink", a: "b=c" },
    prefix: "43cb",
    words: ["bees"],
  });
  assert.equal(maybeId(search("43cb84f4")), "43cb84f4");
  assert.equal(maybeId(search("two words")), "");
  assert.equal(maybeId(search("wörter")), "");
});

test("an event's line has its message, and a retry its delay", () => {
  const failed = create(EventSchema, { type: EventType.EXECUTION_FAILED, message: "no\nway" });
  assert.equal(eventText(failed), "attempt failed: no");
  const retry = create(EventSchema, {
    type: EventType.TASK_RETRY_SCHEDULED,
    executions: [{ executionId: "x", delay: { seconds: 2n } }],
  });
  assert.equal(eventText(retry), "will be tried again in 2.00s");
});

test("the delta of an event lists each field that it sets, with enums by name", () => {
  const event = create(EventSchema, {
    number: 7n,
    type: EventType.RUN_PAUSED,
    run: { status: RunStatus.PAUSED, failure: {}, stages: { stages: [] } },
    tasks: [{ taskId: "a", attempts: 0 }],
  });
  const found = lines(EventSchema, event).map((one) => `${one.path} ${one.value}`);
  for (const wanted of ["number 7", "type RUN_PAUSED", "run.status PAUSED", "run.failure none", "tasks[0].attempts 0"]) {
    assert.ok(found.includes(wanted), `${wanted} in ${found.join("; ")}`);
  }
});

test("two plans differ in what was added, removed and defined otherwise", () => {
  const plan = (revision: number, tasks: object[]) =>
    create(PlanSchema, { revision, tasks: tasks.map((one) => create(TaskSpecSchema, one)) });
  const before = plan(1, [{ taskId: "a", type: "x" }, { taskId: "b" }, { taskId: "c" }]);
  const after = plan(2, [{ taskId: "a", type: "y", role: "r" }, { taskId: "b" }, { taskId: "d" }]);
  assert.deepEqual(planChanges(before, after), [
    { sign: "~", taskId: "a", fields: ["type", "role"] },
    { sign: "-", taskId: "c", fields: [] },
    { sign: "+", taskId: "d", fields: [] },
  ]);
});

test("a plan in JSON keeps the numbers of its inputs", () => {
  const [one] = planOf('[{"id": "a", "type": "t", "depends_on": ["z"], "input": {"n": 9007199254740993, "x": 1.0}}]');
  assert.equal(new TextDecoder().decode(one!.input!.data), '{"n":9007199254740993,"x":1.0}');
  assert.deepEqual([one!.taskId, one!.type, one!.dependsOn], ["a", "t", ["z"]]);
  assert.throws(() => planOf('[{"type": "t"}]'), /tasks\[0\]: it needs an `id`/);
  assert.throws(() => planOf('[{"id": "a", "colour": 1}]'), /tasks\[0\]: .*colour/);
  assert.throws(() => planOf("3"), /list of tasks/);
});

test("a run without a goal is called by its pipeline", () => {
  assert.equal(runTitle(create(RunSchema, { spec: { pipelineId: "p" } })), "p");
});
