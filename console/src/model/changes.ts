// Differences: the delta of an event as lines, of two plans, and of two tasks' definitions.
import { type DescField, type DescMessage, equals, type Message } from "@bufbuild/protobuf";
import { type ReflectMessage, reflect } from "@bufbuild/protobuf/reflect";
import { DurationSchema, TimestampSchema } from "@bufbuild/protobuf/wkt";
import { type Plan, type TaskSpec, TaskSpecSchema } from "../gen/stepwell/v1/types_pb.ts";
import { bytes, decode, moment, ms, span, spanMs } from "./text.ts";

export interface Change {
  path: string;
  value: string;
}

/** Returns the fields of a message that are set, each with its path. */
export function lines<D extends DescMessage>(schema: D, message: Message): Change[] {
  const found: Change[] = [];
  visit(reflect(schema, message as never), "", found);
  return found;
}

function visit(message: ReflectMessage, path: string, found: Change[]): void {
  for (const field of message.fields) {
    if (!message.isSet(field)) continue;
    const inner = path ? `${path}.${field.name}` : field.name;
    const value: unknown = message.get(field);
    if (field.fieldKind === "list") {
      let index = 0;
      for (const item of value as Iterable<unknown>) {
        put(field, item, `${inner}[${index}]`, found);
        index += 1;
      }
      if (!index) found.push({ path: inner, value: "none" });
    } else if (field.fieldKind === "map") {
      for (const [key, item] of value as Iterable<[unknown, unknown]>) {
        found.push({ path: `${inner}.${String(key)}`, value: String(item) });
      }
    } else {
      put(field, value, inner, found);
    }
  }
}

function put(field: DescField, value: unknown, path: string, found: Change[]): void {
  if (field.message) {
    const inner = value as ReflectMessage;
    const plain = inner.message as never;
    if (field.message.typeName === TimestampSchema.typeName) {
      const at = ms(plain);
      found.push({ path, value: at ? moment(at) : "none" });
    } else if (field.message.typeName === DurationSchema.typeName) {
      found.push({ path, value: span(spanMs(plain)) });
    } else {
      const before = found.length;
      visit(inner, path, found);
      // An empty message takes back what was there.
      if (found.length === before) found.push({ path, value: "none" });
    }
  } else if (field.enum) {
    found.push({ path, value: field.enum.value[value as number]?.localName ?? String(value) });
  } else if (value instanceof Uint8Array) {
    found.push({ path, value: decode(value) ?? bytes(value.length) });
  } else {
    found.push({ path, value: String(value) });
  }
}

export type Sign = "=" | "~" | "+" | "-";

export interface TaskChange {
  sign: Sign;
  taskId: string;
  /** The fields of its definition that differ. */
  fields: string[];
}

/** Compares two lists of definitions: `+` is only in the second, `-` only in the first, `~` differs. */
export function compare(first: readonly TaskSpec[], second: readonly TaskSpec[]): TaskChange[] {
  const before = new Map(first.map((one) => [one.taskId, one]));
  const after = new Map(second.map((one) => [one.taskId, one]));
  const ids = [...new Set([...before.keys(), ...after.keys()])];
  return ids.map((taskId) => {
    const one = before.get(taskId);
    const other = after.get(taskId);
    if (!one || !other) return { sign: one ? "-" : "+", taskId, fields: [] };
    const fields = differing(one, other);
    return { sign: fields.length ? "~" : "=", taskId, fields };
  });
}

function differing(one: TaskSpec, other: TaskSpec): string[] {
  if (equals(TaskSpecSchema, one, other)) return [];
  return TaskSpecSchema.fields
    .filter((field) => fieldText(one, field) !== fieldText(other, field))
    .map((field) => field.name);
}

function fieldText(spec: TaskSpec, field: DescField): string {
  const value = (spec as unknown as Record<string, unknown>)[field.localName];
  return JSON.stringify(value, (_, one: unknown) => {
    if (typeof one === "bigint") return `${one}n`;
    return one instanceof Uint8Array ? [...one] : one;
  });
}

/** Compares a plan with the one before it. */
export function planChanges(before: Plan | undefined, plan: Plan): TaskChange[] {
  return compare(before?.tasks ?? [], plan.tasks).filter((one) => one.sign !== "=");
}
