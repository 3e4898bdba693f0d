import assert from "node:assert/strict";
import { test } from "node:test";
import { emptyEntry, EntryError, formOf, jsonOf } from "../../src/model/schema.ts";

const PERSON = JSON.stringify({
  type: "object",
  properties: {
    name: { type: "string", title: "Name" },
    age: { type: "integer" },
    size: { type: "number" },
    member: { type: "boolean" },
    tags: { type: "array", items: { type: "string" } },
    home: { type: "object", properties: { city: { type: "string" } } },
  },
  required: ["name", "age"],
});

test("an object's form has a field for each property, and numbers stay as they were written", () => {
  const form = formOf(PERSON);
  const entry = { name: "Ada", age: "9007199254740993", size: "1.0", member: "true", tags: ["a", ""], home: { city: "" } };
  assert.equal(
    jsonOf(form, entry),
    '{"name":"Ada","age":9007199254740993,"size":1.0,"member":true,"tags":["a",""]}',
  );
});

test("what is left empty is left out, unless it is required", () => {
  const form = formOf(PERSON);
  const entry = emptyEntry(form);
  assert.throws(() => jsonOf(form, entry), (error) => error instanceof EntryError && error.path === "age");
  assert.equal(jsonOf(form, { ...(entry as object), age: "1" }), '{"name":"","age":1}');
});

test("a number that is none is refused with the name of its field", () => {
  const form = formOf(PERSON);
  const wrong = { ...(emptyEntry(form) as object), age: "1.5" };
  assert.throws(() => jsonOf(form, wrong), /age: a whole number is needed/);
  assert.throws(() => jsonOf(form, { ...wrong, age: "many" }), /age: many is no number/);
});

test("choices and constants are the schema's own text", () => {
  const form = formOf('{"enum": [1.0, "red", null, 9007199254740993]}');
  assert.equal(form.kind, "choice");
  assert.deepEqual(
    form.kind === "choice" && form.choices.map((one) => [one.json, one.label]),
    [["1.0", "1.0"], ['"red"', "red"], ["null", "null"], ["9007199254740993", "9007199254740993"]],
  );
});

test("a default is what the form shows at first", () => {
  const form = formOf('{"properties": {"n": {"type": "number", "default": 1.50}, "s": {"type": "string", "default": "x"}}}');
  assert.equal(jsonOf(form, emptyEntry(form)), '{"n":1.50,"s":"x"}');
});

test("references to definitions are followed, and what may be null is left out where it is empty", () => {
  const schema = {
    properties: {
      home: { anyOf: [{ $ref: "#/$defs/Town" }, { type: "null" }], default: null },
      age: { anyOf: [{ type: "null" }, { type: "integer" }], default: null },
    },
    $defs: { Town: { type: "object", properties: { name: { type: "string" } } } },
  };
  const form = formOf(JSON.stringify(schema));
  assert.equal(jsonOf(form, emptyEntry(form)), "{}");
  assert.equal(jsonOf(form, { home: { name: "Oslo" }, age: "3" }), '{"home":{"name":"Oslo"},"age":3}');
});

test("a form of definitions that name each other has an end, in depth and in breadth", () => {
  const parts = Object.fromEntries([...Array(30).keys()].map((n) => [`p${n}`, { $ref: "#/$defs/A" }]));
  const form = formOf(JSON.stringify({ $ref: "#/$defs/A", $defs: { A: { properties: parts }, B: { $ref: "#/$defs/B" } } }));
  assert.ok(JSON.stringify(form).length < 100_000);
  assert.equal(formOf('{"$ref": "#/$defs/B", "$defs": {"B": {"$ref": "#/$defs/B"}}}').kind, "json");
});

test("what no form can show is written as JSON", () => {
  for (const schema of ["", "nonsense", "true", '{"anyOf": [{"type": "string"}]}', '{"$ref": "#/x"}', "{}", '{"type": ["string", "null"]}']) {
    assert.equal(formOf(schema).kind, "json", schema);
  }
  assert.equal(jsonOf({ kind: "json" }, ' {"a": 1.0} '), '{"a": 1.0}');
  assert.throws(() => jsonOf({ kind: "json" }, "{"), /no JSON/);
});

test("a schema that is nested without end makes a form that ends", () => {
  let schema = '{"type": "string"}';
  for (let depth = 0; depth < 100; depth++) schema = `{"properties": {"x": ${schema}}}`;
  assert.equal(formOf(schema).kind, "object");
});
