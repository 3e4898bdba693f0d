// A plan as a person writes it: the fields of TaskSpec by the protocol's names, with inputs as plain JSON.
import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import { type TaskSpec, TaskSpecSchema } from "../gen/stepwell/v1/types_pb.ts";
import { compact, type Json, member, parse } from "./json.ts";

/** Returns the tasks of a plan: a list, or an object with `tasks`. Throws an error that says what is wrong. */
export function planOf(text: string): TaskSpec[] {
  const plan = parse(text);
  const list = plan.kind === "object" ? member(plan, "tasks") : plan;
  if (list?.kind !== "array") throw new Error("A plan is a list of tasks, or an object with `tasks`.");
  return list.items.map((one, index) => taskOf(one, index));
}

function taskOf(task: Json, index: number): TaskSpec {
  const place = `tasks[${index}]`;
  if (task.kind !== "object") throw new Error(`${place}: a task is an object`);
  const plain: Record<string, JsonValue> = {};
  for (const { name, value } of task.entries) {
    if (name !== "input") plain[name === "id" ? "task_id" : name] = JSON.parse(compact(value)) as JsonValue;
  }
  if (!plain["task_id"] && !plain["taskId"]) throw new Error(`${place}: it needs an \`id\``);
  let spec: TaskSpec;
  try {
    spec = fromJson(TaskSpecSchema, plain);
  } catch (error) {
    throw new Error(`${place}: ${(error as Error).message}`);
  }
  const input = member(task, "input");
  if (!input) return spec;
  // The input's bytes are what was written, numbers and all.
  const data = new TextEncoder().encode(compact(input));
  return { ...spec, input: { $typeName: "stepwell.v1.Payload", data } };
}
