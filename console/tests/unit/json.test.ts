import assert from "node:assert/strict";
import { test } from "node:test";
import { compact, foldedFor, isNumber, JsonError, member, parse, print, textOf } from "../../src/model/json.ts";

function printed(text: string): string {
  return print(parse(text))
    .map((line) => "  ".repeat(line.depth) + line.tokens.map((one) => one.text).join(""))
    .join("\n");
}

test("numbers are printed as they are written", () => {
  const numbers = ["9007199254740993", "1.0", "-0.0", "1e400", "1E+2", "0.1000", "123456789012345678901234567890"];
  assert.equal(printed(`[${numbers.join(",")}]`), `[\n  ${numbers.join(",\n  ")}\n]`);
});

test("strings keep their escapes, and keys that are named twice are both shown", () => {
  assert.equal(printed('{"a":"\\u0041\\n","a":1}'), '{\n  "a": "\\u0041\\n",\n  "a": 1\n}');
});

test("empty objects and lists stay on their line", () => {
  assert.equal(printed('{"a":{},"b":[ ]}'), '{\n  "a": {},\n  "b": []\n}');
});

test("a text with something wrong is refused with its place", () => {
  const wrong: [string, RegExp][] = [
    ["", /line 1, column 1/],
    ["{", /string is expected.*column 2/],
    ['{"a":1,}', /string is expected/],
    ["[1 2]", /comma or ].*column 4/],
    ["01", /after the value.*column 2/],
    ["[\n  nul]", /line 2, column 3/],
    ['"\t"', /value is expected|string/i],
    ["NaN", /value is expected/],
  ];
  for (const [text, message] of wrong) {
    assert.throws(() => parse(text), (error) => error instanceof JsonError && message.test(error.message), text);
  }
});

test("a value that is nested too deep is refused, and does not end the page", () => {
  assert.throws(() => parse("[".repeat(100_000)), JsonError);
});

test("what is folded is one line with its size, and keeps the numbers of what follows it", () => {
  const value = parse('{"a":[1,[2],3],"b":{"c":[4]},"d":[]}');
  const text = (folded: number[]) =>
    print(value, new Set(folded)).map((line) => line.tokens.map((one) => one.text).join(""));
  assert.deepEqual(text([1, 3]), ["{", '"a": [ 3 items ],', '"b": { 1 member },', '"d": []', "}"]);
  assert.deepEqual(text([4]).slice(-6), ["],", '"b": {', '"c": [ 1 item ]', "},", '"d": []', "}"]);
  assert.deepEqual(print(value).flatMap((line) => line.node ?? []), [0, 1, 2, 3, 4]);
});

test("a large value is folded from the deepest level up, until it fits", () => {
  const rows = Array.from({ length: 1_000 }, (_, at) => ({ id: at, tags: ["a", "b"] }));
  const value = parse(JSON.stringify({ rows, name: "x" }));
  assert.deepEqual(print(value, foldedFor(value, 120)).length, 4);
  assert.ok(print(value, foldedFor(value, 5_000)).length <= 5_000);
  assert.equal(foldedFor(parse("[1,[2,{}]]"), 120).size, 0);
});

test("a key named __proto__ is a key like others", () => {
  const value = parse('{"__proto__":{"x":1}}');
  assert.equal(compact(value), '{"__proto__":{"x":1}}');
  assert.equal(member(value, "__proto__")?.kind, "object");
  assert.equal(({} as Record<string, unknown>)["x"], undefined);
});

test("a member that is named twice is the last one", () => {
  assert.equal(textOf(member(parse('{"a":"1","a":"2"}'), "a")), "2");
});

test("a number is told from what only looks like one", () => {
  for (const text of ["0", "-1.5e+3", "10"]) assert.ok(isNumber(text), text);
  for (const text of ["", "+1", "1.", ".5", "0x1", "1e", "01", "1 "]) assert.ok(!isNumber(text), text);
});
