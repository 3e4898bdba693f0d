import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { RunStatus } from "../../src/gen/stepwell/v1/types_pb.ts";
import { until, type Watched, World } from "./world.ts";

let world: World;
let page: Watched;

before(async () => {
  world = await World.start();
  page = await world.open("/runs");
});
after(() => world.stop());

async function ends(runId: string, status: RunStatus): Promise<void> {
  await until(`it is ${RunStatus[status]}`, async () => (await world.api.getRun({ runId })).run?.status === status);
}

async function asks(goal: string): Promise<string> {
  const plan = [{ id: "write", type: "write" }, { id: "approve", type: "approve", depends_on: ["write"] }];
  const runId = await world.start(goal, plan);
  await until("it asks", async () => (await world.api.listQuestions({ runId })).questions.length > 0);
  return runId;
}

test("a question is answered in the head of the run, and beside its task", async () => {
  const first = await asks("answered in the head");
  await page.goto(`${world.base}/runs/${first}`);
  await page.locator(".run-head summary", { hasText: "Asks a person: Send it?" }).click();
  await world.shot(page, "run-asks");
  await page.locator(".run-head").getByRole("button", { name: "Yes" }).click();
  await page.locator(".run-head .pill", { hasText: "succeeded" }).waitFor();
  await ends(first, RunStatus.SUCCEEDED);
  const second = await asks("answered beside its task");
  await page.goto(`${world.base}/runs/${second}/tasks?task=approve`);
  const panel = page.getByRole("complementary", { name: "Task approve" });
  await panel.locator(".mark", { hasText: "asks a person" }).waitFor();
  await panel.getByRole("button", { name: "No" }).click();
  await panel.locator(".mark", { hasText: "completed" }).first().waitFor();
  await ends(second, RunStatus.SUCCEEDED);
  assert.deepEqual(page.errors, []);
});

test("the head of each page and its title count the open questions, as they come and go", async () => {
  await page.goto(`${world.base}/service`);
  await page.getByRole("heading", { name: "Workers" }).waitFor();
  assert.equal(await page.locator(".badge").count(), 0);
  const runId = await asks("counted");
  await page.locator(".badge", { hasText: "1" }).waitFor();
  await until("the title has it", async () => (await page.title()) === "(1) Service · Stepwell");
  await world.api.cancelRun({ runId });
  await page.locator(".badge").waitFor({ state: "detached" });
  assert.equal(await page.title(), "Service · Stepwell");
});

test("the newest question shows what happened before it, and keys reach its answer", async () => {
  const older = await asks("the older one");
  const newer = await asks("the newer one");
  await page.goto(`${world.base}/inbox`);
  const card = page.locator("article", { hasText: "the newer one" });
  await card.locator("li", { hasText: "write completed" }).waitFor();
  await card.locator(".said", { hasText: "Bees are busy" }).waitFor({ state: "detached" });
  assert.equal(await page.getByText("the older one").count(), 0);
  await world.shot(page, "inbox-before");
  const focused = () => page.evaluate(() => document.activeElement?.closest("article")?.textContent ?? "");
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  assert.match(await focused(), /Send it/);
  await page.keyboard.press("k");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), "Yes");
  await page.keyboard.press("Enter");
  await until("one is left", async () => (await page.locator("article").count()) === 1);
  for (const runId of [older, newer]) await world.api.cancelRun({ runId }).catch(() => undefined);
  assert.deepEqual(page.errors, []);
});

test("a failed run opens on its reason, with the failed step's parts side by side and what can be done", async () => {
  const plan = [{ id: "good", type: "quick" }, { id: "bad", type: "bad", title: "A bad step", input: { n: 7 } }];
  const runId = await world.start("it breaks", plan);
  await ends(runId, RunStatus.FAILED);
  await page.goto(`${world.base}/runs/${runId}`);
  const step = page.getByRole("region", { name: "Failed: A bad step" });
  const pane = (name: string) => step.getByRole("region", { name });
  await pane("Input").locator("pre.json", { hasText: '"n": 7' }).waitFor();
  await pane("Output of the last attempt").getByText(/in bad/).first().waitFor();
  await pane("Log").getByText("it goes wrong now").waitFor();
  await pane("Journal").getByText("look").waitFor();
  await world.shot(page, "run-reason");
  const choices = page.getByRole("region", { name: "What can be done" });
  assert.equal(await choices.getByRole("heading").count(), 3);
  assert.match((await choices.getByRole("link", { name: "Start" }).getAttribute("href"))!, /goal=it\+breaks/);
  await choices.getByRole("button", { name: "Resume" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Resume" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  assert.deepEqual(page.errors, []);
});
