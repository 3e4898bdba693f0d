import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { RunStatus } from "../../src/gen/stepwell/v1/types_pb.ts";
import { until, World } from "./world.ts";

let world: World;
before(async () => {
  world = await World.start();
});
after(() => world.stop());

test("each page is kept as a picture in light and in dark, at 1280 pixels", async () => {
  const runId = await world.start("Write about bees");
  await until("it asks", async () => (await world.api.listQuestions({ runId })).questions.length > 0);
  const failed = await world.start("it breaks", [{ id: "bad", type: "bad" }]);
  await until("it failed", async () => (await world.api.getRun({ runId: failed })).run?.status === RunStatus.FAILED);
  const page = await world.open("/runs");
  const views = ["graph", "tasks", "timeline", "events", "logs", "messages", "journal", "plans", "result"];
  const pages: [path: string, shows: string][] = [
    ["/runs", ".run-row"],
    ["/inbox", "article"],
    ["/start", "form"],
    ["/service", ".tiles dl"],
    ["/compare", "#runs option"],
    [`/compare/${runId}/${failed}`, "table"],
    [`/runs/${runId}/fork`, ".slider"],
    [`/runs/${failed}`, ".pane"],
    [`/runs/${runId}/tasks?task=write`, ".panel dl"],
    ...views.map((one): [string, string] => [`/runs/${runId}/${one}`, ".tab > *"]),
  ];
  for (const [path, shows] of pages) {
    await page.goto(world.base + path);
    await page.locator(shows).first().waitFor({ state: "attached" });
    const name = `page${path.replaceAll(runId, "run").replaceAll(failed, "failed").replaceAll(/[^a-z]+/g, "-")}`;
    const [light, dark] = (await world.shot(page, name)).map((one) => readFileSync(one));
    assert.ok(light!.length > 1_000 && !light!.equals(dark!), path);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 1_280, path);
  }
  assert.deepEqual(page.errors, []);
});

test("two runs to compare are chosen from those that there are", async () => {
  const page = await world.open("/compare");
  const option = page.locator("#runs option", { hasText: "it breaks" }).first();
  await option.waitFor({ state: "attached" });
  await page.getByLabel("A run", { exact: true }).fill((await option.getAttribute("value"))!);
  const other = page.locator("#runs option", { hasText: "Write about bees" }).first();
  await page.getByLabel("Another run").fill((await other.getAttribute("value"))!);
  await page.getByRole("button", { name: "Compare" }).click();
  await page.getByRole("columnheader", { name: "planned" }).waitFor();
  assert.deepEqual(page.errors, []);
});

test("a run is copied as curl, which asks for it", async () => {
  const context = await world.browser.newContext({ permissions: ["clipboard-read", "clipboard-write"] });
  const runId = await world.start("copied", [{ id: "a", type: "quick" }]);
  const page = await world.open(`/runs/${runId}`, context);
  await page.getByText("Copy as").click();
  await page.getByRole("button", { name: "curl", exact: true }).click();
  const text = await page.evaluate(() => navigator.clipboard.readText());
  const [, url = "", body = ""] = /^curl -s (\S+) [^]* -d '(.*)'$/.exec(text) ?? [];
  const answer = await fetch(url, {
    method: "POST",
    headers: { Authorization: `Bearer ${world.token}`, "Content-Type": "application/json" },
    body,
  });
  assert.equal(((await answer.json()) as { run: { spec: { goal: string } } }).run.spec.goal, "copied");
  await context.close();
});
