// Forms for JSON schemas: which fields a form has, and the JSON text of what was entered. Numbers, choices and
// defaults stay as the schema and the person wrote them.
import { compact, isNumber, type Json, JsonError, member, parse, textOf } from "./json.ts";

export type Field =
  | { kind: "text"; long: boolean }
  | { kind: "number" | "integer" }
  | { kind: "boolean" }
  | { kind: "choice"; choices: Choice[] }
  | { kind: "object"; members: Member[] }
  | { kind: "list"; item: Field }
  | { kind: "json" };

/** A choice: its JSON text, and what is shown. */
export interface Choice {
  json: string;
  label: string;
}

export interface Member {
  name: string;
  title: string;
  description: string;
  required: boolean;
  field: Field;
  /** The JSON text of the schema's default; "" where there is none. */
  initial: string;
}

/** What was entered. A list has one entry for each item, an object one for each member. */
export type Entry = string | Entry[] | { [name: string]: Entry };

const DEPTH_MAX = 6;
const FIELDS_MAX = 300;

/** Returns the form for a schema's text; without a schema, and for what no form can show, a JSON field. */
export function formOf(schema: string): Field {
  if (!schema.trim()) return { kind: "json" };
  try {
    const whole = parse(schema);
    return field(whole, 0, { definitions: member(whole, "$defs"), room: FIELDS_MAX });
  } catch (error) {
    if (error instanceof JsonError) return { kind: "json" };
    throw error;
  }
}

/** What holds for a whole form: where references lead, and how many fields it may still have. */
interface Whole {
  definitions: Json | undefined;
  room: number;
}

/** Follows a reference to a definition, and takes "this or null" for this: what is left empty is left out. */
function simple(schema: Json, whole: Whole, depth: number): Json {
  if (depth > DEPTH_MAX) return schema;
  const [, name] = /^#\/\$defs\/([^/~%]+)$/.exec(textOf(member(schema, "$ref")) ?? "") ?? [];
  const found = name && whole.definitions && member(whole.definitions, name);
  if (found) return simple(found, whole, depth + 1);
  const choices = member(schema, "anyOf");
  if (choices?.kind !== "array" || choices.items.length !== 2) return schema;
  const others = choices.items.filter((one) => textOf(member(one, "type")) !== "null");
  return others.length === 1 ? simple(others[0]!, whole, depth + 1) : schema;
}

function field(given: Json, depth: number, whole: Whole): Field {
  const schema = simple(given, whole, depth);
  if (schema.kind !== "object" || depth > DEPTH_MAX) return { kind: "json" };
  // What combines schemas or leads to another place is left to a person who writes JSON.
  for (const name of ["$ref", "anyOf", "oneOf", "allOf", "not", "if"]) {
    if (member(schema, name)) return { kind: "json" };
  }
  const values = member(schema, "enum");
  if (values?.kind === "array") return { kind: "choice", choices: values.items.map(choice) };
  const only = member(schema, "const");
  if (only) return { kind: "choice", choices: [choice(only)] };
  switch (textOf(member(schema, "type"))) {
    case "string":
      return { kind: "text", long: Number(lengthMax(schema)) > 200 };
    case "number":
      return { kind: "number" };
    case "integer":
      return { kind: "integer" };
    case "boolean":
      return { kind: "boolean" };
    case "object":
      return object(schema, depth, whole);
    case "array": {
      const items = member(schema, "items");
      return items ? { kind: "list", item: field(items, depth + 1, whole) } : { kind: "json" };
    }
    default:
      return member(schema, "properties") ? object(schema, depth, whole) : { kind: "json" };
  }
}

function lengthMax(schema: Json): string {
  const found = member(schema, "maxLength");
  return found?.kind === "number" ? found.text : "0";
}

function choice(value: Json): Choice {
  return { json: compact(value), label: textOf(value) ?? compact(value) };
}

function object(schema: Json, depth: number, whole: Whole): Field {
  const properties = member(schema, "properties");
  if (properties?.kind !== "object" || !properties.entries.length) return { kind: "json" };
  if (properties.entries.length > whole.room) return { kind: "json" };
  whole.room -= properties.entries.length;
  const required = member(schema, "required");
  const names = new Set(required?.kind === "array" ? required.items.map(textOf) : []);
  return {
    kind: "object",
    members: properties.entries.map(({ name, value }) => {
      const initial = member(value, "default");
      return {
        name,
        title: textOf(member(value, "title")) ?? name,
        description: textOf(member(value, "description")) ?? "",
        required: names.has(name),
        field: field(value, depth + 1, whole),
        initial: initial && compact(initial) !== "null" ? compact(initial) : "",
      };
    }),
  };
}

/** Returns what a form shows at first. */
export function emptyEntry(one: Field, initial = ""): Entry {
  if (one.kind === "object") {
    return Object.fromEntries(
      one.members.map((part) => [part.name, emptyEntry(part.field, part.initial)]),
    );
  }
  if (one.kind === "list") return [];
  if (!initial) return "";
  return one.kind === "text" ? (textOf(parse(initial)) ?? "") : initial;
}

/** What is wrong with an entry, by its path. */
export class EntryError extends Error {
  constructor(
    readonly path: string,
    message: string,
  ) {
    super(path ? `${path}: ${message}` : message);
  }
}

/** Returns the JSON text of what was entered; "" for a field that was left empty. */
export function jsonOf(one: Field, entry: Entry, path = ""): string {
  switch (one.kind) {
    case "object": {
      const entries = entry as Record<string, Entry>;
      const parts = one.members.flatMap((part) => {
        const inner = path ? `${path}.${part.name}` : part.name;
        const text = jsonOf(part.field, entries[part.name] ?? "", inner);
        const empty = !text || (!part.required && (text === "{}" || text === "[]"));
        if (!empty) return [`${JSON.stringify(part.name)}:${text}`];
        if (!part.required) return [];
        if (part.field.kind === "text") return [`${JSON.stringify(part.name)}:""`];
        throw new EntryError(inner, "a value is needed");
      });
      return `{${parts.join(",")}}`;
    }
    case "list": {
      const items = entry as Entry[];
      return `[${items.map((item, index) => itemOf(one.item, item, `${path}[${index}]`)).join(",")}]`;
    }
    case "text":
      return entry === "" ? "" : JSON.stringify(entry);
    case "number":
    case "integer":
      return numberOf(entry as string, one.kind, path);
    case "json":
      return jsonText(entry as string, path);
    default:
      return entry as string;
  }
}

function itemOf(one: Field, entry: Entry, path: string): string {
  const text = jsonOf(one, entry, path);
  if (text) return text;
  if (one.kind === "text") return '""';
  throw new EntryError(path, "a value is needed");
}

function numberOf(entry: string, kind: "number" | "integer", path: string): string {
  const text = entry.trim();
  if (!text) return "";
  if (!isNumber(text)) throw new EntryError(path, `${text} is no number`);
  if (kind === "integer" && /[.eE]/.test(text)) throw new EntryError(path, "a whole number is needed");
  return text;
}

function jsonText(entry: string, path: string): string {
  if (!entry.trim()) return "";
  try {
    parse(entry);
  } catch (error) {
    throw new EntryError(path, `this is no JSON. ${(error as Error).message}`);
  }
  return entry.trim();
}
