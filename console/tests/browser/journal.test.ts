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

async function done(runId: string): Promise<void> {
  await until("it is done", async () => (await world.api.getRun({ runId })).run?.status === RunStatus.SUCCEEDED, 60_000);
}

test("a journal nests the calls, with their tries and short values, and reads long ones when asked", async () => {
  const runId = await world.start("calls", [{ id: "calls", type: "calls" }]);
  await done(runId);
  const page = await world.open(`/runs/${runId}/journal`);
  const outer = page.locator(".journal > li").filter({ has: page.getByText("agent", { exact: true }) }).first();
  const inner = outer.locator(".journal.inner > li");
  await inner.nth(1).waitFor();
  assert.equal(await inner.count(), 2);
  await inner.first().locator("code.value", { hasText: '"page 1"' }).waitFor();
  await outer.getByText("15 tokens").first().waitFor();
  const flaky = page.locator(".journal > li").filter({ hasText: "flaky" }).last();
  await flaky.getByText("1 failed try").waitFor();
  await flaky.getByText(/try 1 failed: ConnectionError: the line was cut/).click();
  await flaky.locator(".failure").waitFor();
  await flaky.getByRole("button", { name: /^Show [\d.]+ KiB/ }).click();
  await flaky.locator(".payload").getByText(/xxxxx/).first().waitFor();
  await page.locator(".journal").getByText("charge-17", { exact: true }).waitFor();
  await world.shot(page, "journal");
  assert.deepEqual(page.errors, []);
  await page.close();
});

test("a log joins what steps stream side by side, by step, and can be searched and saved", async () => {
  const plan = Array.from({ length: 4 }, (_, n) => ({ id: `talk${n}`, type: "write", title: `Talk ${n}` }));
  const runId = await world.start("talk", plan, { maxParallel: 4 });
  await done(runId);
  const page = await world.open(`/runs/${runId}/logs`);
  await page.getByText("the whole log").waitFor();
  const texts = page.locator(".log .chunk", { hasText: "Bees are busy , and so is this step ." });
  await until("one text for each step", async () => (await texts.count()) === 4);
  assert.equal(await page.locator(".log .chunk").count(), 4);
  await page.getByRole("button", { name: "By step" }).click();
  await page.locator(".log-step summary", { hasText: "Talk 3 #1" }).waitFor();
  assert.equal(await page.locator(".log-step").count(), 4);
  await page.getByLabel("Search the log").fill("DRAFT");
  await page.getByText("4 of 8 parts").waitFor();
  assert.equal(await page.locator(".log mark").count(), 4);
  await page.getByLabel("Search the log").press("Enter");
  await page.locator(".log mark.current", { hasText: "draft" }).waitFor();
  await world.shot(page, "logs");
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download" }).click()]);
  assert.equal(download.suggestedFilename(), `${runId}.log`);
  const saved = readFileSync(await download.path(), "utf8");
  assert.equal(saved.match(/Bees are busy , and so is this step \./g)?.length, 4);
  assert.equal(saved.match(/talk\d#1 INFO the draft begins\n/g)?.length, 4);
  const box = page.locator(".log");
  await page.getByRole("button", { name: "Wrap" }).click();
  assert.equal(await box.locator("pre").first().evaluate((one) => getComputedStyle(one).whiteSpace), "pre");
  assert.deepEqual(page.errors, []);
  await page.close();
});

test("a log stays at its end until somebody scrolls up, and follows again when told to", async () => {
  const runId = await world.start("lines", [
    { id: "lines", type: "lines", input: 400 },
    { id: "ask", type: "approve", depends_on: ["lines"] },
    { id: "more", type: "lines", input: 50, depends_on: ["ask"] },
  ]);
  await until("it asks", async () => (await world.api.listQuestions({ runId })).questions.length > 0);
  const page = await world.open(`/runs/${runId}/logs`);
  await page.locator(".log .line", { hasText: "line 399" }).waitFor();
  const box = page.locator(".log");
  const fromEnd = () => box.evaluate((one) => one.scrollHeight - one.clientHeight - one.scrollTop);
  await until("it is at its end", async () => (await fromEnd()) < 5);
  const follow = page.getByRole("button", { name: "Follow" });
  await box.hover();
  await page.mouse.wheel(0, -2_000);
  await until("it follows no more", async () => (await follow.getAttribute("aria-pressed")) === "false");
  const [question] = (await world.api.listQuestions({ runId })).questions;
  const answer = { data: new TextEncoder().encode("true") };
  await world.api.answerQuestion({ runId, questionId: question!.question!.questionId, answer });
  await page.locator(".log .line", { hasText: /line 49$/ }).nth(1).waitFor({ state: "attached" });
  assert.ok((await fromEnd()) > 100);
  await follow.click();
  await until("it is at its end again", async () => (await fromEnd()) < 5);
  assert.deepEqual(page.errors, []);
  await page.close();
});
