import assert from "node:assert/strict";
import { test } from "node:test";
import { parse } from "../../src/model/json.ts";
import { isMarkdown, markdown, spans } from "../../src/model/markdown.ts";
import { isSmallPicture, mediaOf, textMediaOf } from "../../src/model/media.ts";
import { pieces, visible } from "../../src/model/strange.ts";
import { csv, tableOf } from "../../src/model/table.ts";

test("characters that turn text round or can't be seen are shown by name, and words stay as they are", () => {
  assert.equal(visible('"abc\u202e", "d\u0000\u001b\u200b"'), '"abc⟨RLO⟩", "d⟨NUL⟩⟨ESC⟩⟨ZWSP⟩"');
  assert.equal(visible("שלום\tعربي\n👩‍💻 \r\n"), "שלום\tعربي\n👩‍💻 \r\n");
  assert.equal(visible("a\rb\u{e0041}"), "a⟨CR⟩b⟨U+E0041⟩");
  assert.deepEqual(pieces("a\u202eb"), [{ text: "a" }, { text: "RLO", code: "U+202E" }, { text: "b" }]);
});

test("a terminal's colours are followed until they end, and its other sequences are named", () => {
  assert.deepEqual(pieces("\x1b[1;31mred\x1b[39m strong\x1b[0m plain"), [
    { text: "red", tone: "strong ansi-1" },
    { text: " strong", tone: "strong" },
    { text: " plain" },
  ]);
  assert.deepEqual(pieces("\x1b[38;5;31mx\x1b[48;2;1;31;3my"), [{ text: "x" }, { text: "y" }]);
  assert.deepEqual(pieces("\x1b[2J"), [{ text: "ESC", code: "U+001B" }, { text: "[2J" }]);
});

test("headings, lists, quotes, code, tables and rules are blocks", () => {
  const text = [
    "# Title", "", "One\ntwo", "- a", "- b", "  1. c", "  2. d", "", "> said", "```py", "x = '# no title'", "```",
    "| a | b |", "|---|:-:|", "| 1 | 2 |", "---", "3. third",
  ].join("\n");
  const found = markdown(text);
  assert.deepEqual(found.map((one) => one.kind), ["heading", "paragraph", "list", "quote", "code", "table", "rule", "list"]);
  const list = found[2];
  assert.ok(list?.kind === "list" && list.start === undefined && list.items.length === 2);
  assert.deepEqual(list.items[1]!.map((one) => one.kind), ["paragraph", "list"]);
  assert.deepEqual(found[4], { kind: "code", text: "x = '# no title'" });
  assert.ok(found[7]?.kind === "list" && found[7].start === 3);
});

test("emphasis, code and links are spans, and only http and https are links", () => {
  assert.deepEqual(spans("a **b *c*** `d*e*` [f](https://x.test/?a=1)"), [
    { kind: "text", text: "a " },
    { kind: "strong", spans: [{ kind: "text", text: "b " }, { kind: "em", spans: [{ kind: "text", text: "c" }] }] },
    { kind: "text", text: " " },
    { kind: "code", text: "d*e*" },
    { kind: "text", text: " " },
    { kind: "link", spans: [{ kind: "text", text: "f" }], to: "https://x.test/?a=1" },
  ]);
  for (const text of ["[x](javascript:alert(1))", "[x](data:text/html,1)", "![x](https://x.test/a.png)", "snake_case_name", "2 * 3 * 4", "<b>x</b>"]) {
    assert.deepEqual(spans(text), [{ kind: "text", text }]);
  }
});

test("a text of nothing but marks is read with little work", () => {
  const before = process.cpuUsage();
  for (const mark of ["`", "*", "_", "[", "> ", "- ", "|", "# ", "**", "[a]("]) {
    const text = mark.repeat(65_536 / mark.length);
    isMarkdown(text);
    markdown(text);
  }
  const { user } = process.cpuUsage(before);
  assert.ok(user < 20_000_000, `${user} µs of the processor's time`);
});

test("a list of objects and CSV are tables, and other JSON is none", () => {
  assert.deepEqual(tableOf(parse('[{"a":1.0,"b":"x"},{"b":[2],"c":null}]')), {
    head: ["a", "b", "c"],
    rows: [["1.0", "x", ""], ["", "[2]", "null"]],
  });
  for (const text of ["[]", '[{"a":1}]', '[{"a":1},2]', '{"a":1}', "[1,2]"]) assert.equal(tableOf(parse(text)), undefined, text);
  assert.deepEqual(csv('a,b\r\n"1,""2""\n3",\nx"y,z"'), { head: ["a", "b"], rows: [['1,"2"\n3', ""], ['x"y', 'z"']] });
});

test("a payload is shown by its media type, and raw on demand", () => {
  const names = (text: string, type: string) => mediaOf(new TextEncoder().encode(text), type).names;
  assert.deepEqual(names('{"a":1}', "application/json"), ["Tree", "Raw"]);
  assert.deepEqual(names('[{"a":1},{"a":2}]', "application/json"), ["Table", "Tree", "Raw"]);
  assert.deepEqual(names('"# Title\\n\\ntext"', "application/json; charset=utf-8"), ["Text", "Tree", "Raw"]);
  assert.deepEqual(names('"steady"', "application/json"), ["Tree", "Raw"]);
  assert.deepEqual(names("{", "application/json"), ["Raw"]);
  assert.deepEqual(names("plain", "text/markdown"), ["Text", "Raw"]);
  assert.deepEqual(names("a,b\n1,2", "text/csv"), ["Table", "Raw"]);
  assert.deepEqual(names("<b>x</b>", "text/html"), ["Raw"]);
  assert.deepEqual(names("<svg/>", "image/svg+xml"), ["Raw"]);
  assert.deepEqual(names("x", "image/png"), ["Picture", "Raw"]);
  assert.deepEqual(textMediaOf("{not json}").names, ["Raw"]);
  assert.deepEqual(textMediaOf("**yes**").names, ["Text", "Raw"]);
});

test("a picture is drawn unasked only where it says that it is small", () => {
  const png = (width: number, height: number) => {
    const data = new DataView(new ArrayBuffer(33));
    data.setUint32(0, 0x89504e47);
    data.setUint32(16, width);
    data.setUint32(20, height);
    return new Uint8Array(data.buffer);
  };
  assert.ok(isSmallPicture(png(800, 600)));
  assert.ok(!isSmallPicture(png(60_000, 60_000)));
  const jpeg = [0xff, 0xd8, 0xff, 0xe0, 0, 4, 1, 1, 0xff, 0xc2, 0, 17, 8, 0x10, 0, 0x10, 0];
  assert.ok(!isSmallPicture(new Uint8Array([...jpeg.slice(0, 13), 0xff, 0xff, 0xff, 0xff])));
  assert.ok(isSmallPicture(new Uint8Array([...jpeg.slice(0, 13), 2, 0, 2, 0])));
  for (const data of [[], [0xff, 0xd8], [1, 2, 3, 4]]) assert.ok(!isSmallPicture(new Uint8Array(data)));
});
