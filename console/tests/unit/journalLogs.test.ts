import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { durationFromMs, timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  JournalMark,
  LogEntrySchema,
  LogKind,
  type StoredEntry,
  StoredEntrySchema,
} from "../../src/gen/stepwell/v1/types_pb.ts";
import { type Call, calls, stateOf, used } from "../../src/model/calls.ts";
import { asFile, byAttempt, LogText, split } from "../../src/model/logText.ts";

function chunk(executionId: string, text: string) {
  return create(LogEntrySchema, { executionId, text, kind: LogKind.CHUNK });
}

function line(executionId: string, text: string) {
  return create(LogEntrySchema, { executionId, text, kind: LogKind.LINE, level: "INFO" });
}

test("chunks of steps that stream side by side become one text for each", () => {
  const log = new LogText();
  for (const word of ["Bees ", "are ", "busy."]) {
    log.put(chunk("task:a#1", word));
    log.put(chunk("task:b#1", word.toUpperCase()));
  }
  assert.deepEqual(log.blocks.map((one) => one.text), ["Bees are busy.", "BEES ARE BUSY."]);
  log.put(line("task:a#1", "done"));
  log.put(chunk("task:a#1", "More."));
  log.put(chunk("task:b#1", " MORE."));
  assert.deepEqual(log.blocks.map((one) => one.text), ["Bees are busy.", "BEES ARE BUSY. MORE.", "done", "More."]);
  assert.deepEqual(byAttempt(log.blocks).map(([id, list]) => [id, list.length]), [["task:a#1", 3], ["task:b#1", 1]]);
});

test("a long log keeps its last part, and its chunks are joined as before", () => {
  const log = new LogText(10);
  log.put(chunk("task:a#1", "begin"));
  log.put(chunk("task:b#1", "x"));
  for (let n = 0; n < 9; n++) log.put(line("task:c#1", String(n)));
  assert.equal(log.dropped, 2);
  log.put(chunk("task:a#1", "again"));
  log.put(chunk("task:a#1", " and again"));
  assert.equal(log.blocks.at(-1)!.text, "again and again");
  assert.deepEqual(log.blocks.map((one) => one.number), [2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
});

test("a log's file has a line for each line, and a head for each text", () => {
  const log = new LogText();
  log.put(line("task:a#1", "begin"));
  log.put(chunk("task:a#1", "Bees are "));
  log.put(chunk("task:a#1", "busy.\n"));
  assert.equal(asFile(log.blocks), "– a#1 INFO begin\n– a#1\nBees are busy.\n");
});

test("words are found whatever their case, and signs in them are no pattern", () => {
  assert.deepEqual(split("Bees are bees", "BEES"), ["", "Bees", " are ", "bees", ""]);
  assert.deepEqual(split("a.b axb", "a.b"), ["", "a.b", " axb"]);
  assert.deepEqual(split("text", ""), ["text"]);
});

const A = "aaaaaaaaaaaaaaaa";
const B = "bbbbbbbbbbbbbbbb";

function entry(key: string, written: number, fields: object = {}, stored: object = {}): StoredEntry {
  return create(StoredEntrySchema, {
    journal: "task:a@1",
    generation: 1,
    writtenTime: timestampFromMs(written),
    entry: { key, mark: JournalMark.END, ...fields },
    ...stored,
  });
}

/** Names with what is within them. */
function shape(list: readonly Call[]): unknown[] {
  return list.map((one) => (one.inner.length ? [one.name, shape(one.inner)] : one.name));
}

test("calls are nested by their keys, in the order in which they began", () => {
  const found = calls([
    entry(`agent/${A}#1/search/${B}#1`, 2_000),
    entry(`agent/${A}#1/search/${B}#2`, 3_000),
    entry(`agent/${A}#1`, 4_000, { name: "agent", took: durationFromMs(2_500) }),
    entry(`first/${A}#1`, 1_200),
    entry(`reader/fetch/${A}#1`, 5_000),
    entry("charge-17", 7_000),
    entry(`charge-17#/post/${A}#1`, 6_500),
  ]);
  assert.deepEqual(shape(found), ["first", ["agent", ["search", "search"]], ["reader", ["fetch"]], ["charge-17", ["post"]]]);
  const [, agent, reader, charge] = found;
  assert.deepEqual(agent!.inner.map((one) => [one.number, one.digest]), [[1, B], [2, B]]);
  assert.deepEqual([reader!.scope, charge!.scope, charge!.own], [true, false, "charge-17"]);
});

test("a call of which only inner calls are recorded is open, and signs of names are read", () => {
  const [outer] = calls([entry(`a%2Fb%23c%25/${A}#1/inner/${B}#1`, 1_000)]);
  assert.deepEqual([outer!.name, outer!.inner.length, stateOf(outer!, 0)], ["a/b#c%", 1, "open"]);
});

test("a call has its tries and its state, and what calls within it used", () => {
  const key = `model/${A}#1`;
  const usage = { inputTokens: 10n, outputTokens: 5n, costMicros: 100n };
  const failed = [1, 2].map((number) => entry(key, 1_000 * number, { mark: JournalMark.TRY, number, usage }));
  const [open] = calls(failed);
  assert.deepEqual([open!.tries.length, stateOf(open!, 0)], [2, "failed"]);
  const [done] = calls([...failed, entry(`${key}/tool/${B}#1`, 2_500, { usage }), entry(key, 3_000, { usage })]);
  assert.deepEqual([stateOf(done!, 0), used(done!)], ["done", { tokens: 60, costMicros: 400n }]);
  const [sleep] = calls([entry(`sleep/${A}#1`, 1_000, { mark: JournalMark.WAIT }, { untilTime: timestampFromMs(9_000) })]);
  assert.deepEqual([stateOf(sleep!, 5_000), stateOf(sleep!, 9_500)], ["sleeps", "slept"]);
  const [begun] = calls([entry("charge", 1_000, { mark: JournalMark.BEGIN, number: 1 })]);
  assert.equal(stateOf(begun!, 0), "begun");
});
