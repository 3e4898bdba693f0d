import assert from "node:assert/strict";
import { test } from "node:test";
import { listSnippets, pythonText, runSnippets, shellWord } from "../../src/model/snippets.ts";

test("words of strangers stay one word of a shell, and one text of Python", () => {
  assert.equal(shellWord("a-run.1"), "a-run.1");
  assert.equal(shellWord("$(rm -rf ~); it's `x`"), "'$(rm -rf ~); it'\\''s `x`'");
  assert.equal(shellWord(""), "''");
  assert.equal(pythonText('say "é" \u202e 🐝\n'), String.raw`"say \"\u00e9\" \u202e \U0001f41d\n"`);
});

test("a run and a list are asked for by curl, by the command line and in Python", () => {
  const one = runSnippets("http://127.0.0.1:7880", "3f2a");
  assert.match(one.curl, /^curl -s http:\/\/127.0.0.1:7880\/stepwell.v1.Orchestrator\/GetRun .*-d '{"runId":"3f2a"}'$/s);
  assert.equal(one.cli, "stepwell show 3f2a");
  assert.match(one.python, /client\.run\("3f2a"\)\.get\(\)/);
  const list = listSnippets("http://h", { statuses: ["FAILED"], pipelineId: "p q", labels: { team: "ink" } });
  assert.match(list.curl, /'{"statuses":\["RUN_STATUS_FAILED"\],"pipelineId":"p q","labels":{"team":"ink"}}'$/);
  assert.equal(list.cli, "stepwell ls --status failed --pipeline 'p q' --label team=ink");
  assert.match(list.python, /client\.runs\(statuses=\[RunStatus\.FAILED\], pipeline="p q", labels={"team": "ink"}\):/);
  assert.match(listSnippets("http://h", { statuses: [], pipelineId: "", labels: {} }).curl, /-d '{}'$/);
});
