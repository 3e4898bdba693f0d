import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { JournalMark, RunStatus } from "../../src/gen/stepwell/v1/types_pb.ts";
import { until, type Watched, World } from "./world.ts";

let world: World;
let runId: string;
let page: Watched;

before(async () => {
  world = await World.start();
  runId = await world.start("Write about bees", undefined, {
    budget: { inputTokens: 1_000n, costMicros: 2_000_000n },
    labels: { team: "ink" },
  });
  await until("the run asks", async () => (await world.api.listQuestions({ runId })).questions.length > 0);
  page = await world.open(`/runs/${runId}`);
});
after(() => world.stop());

async function tab(name: string): Promise<void> {
  await page.getByRole("navigation", { name: "Views of the run" }).getByRole("link", { name }).click();
}

test("the beginning of an id leads to the run, and keeps the view", async () => {
  const short = await world.open(`/runs/${runId.slice(0, 8)}/tasks?task=shaky`);
  await short.waitForURL(`${world.base}/runs/${runId}/tasks?task=shaky`);
  await short.getByRole("complementary", { name: "Task shaky" }).waitFor();
  await short.close();
});

test("the head says how the run stands, what it waits for and what is used of its budget", async () => {
  const head = page.locator(".run-head");
  await head.getByText("waiting", { exact: true }).waitFor();
  await head.getByText(/Asks a person: Who is it for\?/).waitFor();
  await head.getByText("tokens in: 120 of 1,000").first().waitFor();
  await head.getByText("cost: 0.0015 of 2.00").first().waitFor();
  await head.getByText("Details").click();
  await head.getByText("team=ink").waitFor();
  await head.getByText("Details").click();
});

test("a run that works on while it asks says only what can be answered", async () => {
  const busy = await world.start("busy", [{ id: "slow", type: "slow" }, { id: "ask", type: "approve" }]);
  await until("it asks", async () => (await world.api.listQuestions({ runId: busy })).questions.length > 0);
  const other = await world.open(`/runs/${busy}`);
  const note = other.locator(".run-head .note");
  await note.getByText(/^Asks a person: Send it\?/).waitFor();
  assert.equal(await note.count(), 1);
  await world.api.cancelRun({ runId: busy });
  await note.waitFor({ state: "detached" });
  await other.close();
});

test("the graph has a node for each task, with its state, and opens the task", async () => {
  const graph = page.getByRole("region", { name: "Graph of the plan" });
  await graph.getByRole("link", { name: /Gather the numbers completed/ }).waitFor();
  await graph.getByRole("link", { name: /Ask who it is for asks a person/ }).waitFor();
  await graph.getByRole("link", { name: /A shaky step completed.*×3/ }).waitFor();
  assert.equal(await graph.locator(".edges .line").count(), 3);
  await page.getByLabel("Critical path").check();
  // A straight line has no height, so for the browser's driver it is never visible.
  await graph.locator(".edges .critical .line").first().waitFor({ state: "attached" });
  await world.shot(page, "run-graph");
  await graph.getByRole("link", { name: /A shaky step/ }).click();
  await page.getByRole("complementary", { name: "Task shaky" }).waitFor();
});

test("a task's panel has each attempt with its traceback", async () => {
  const panel = page.getByRole("complementary", { name: "Task shaky" });
  await panel.getByText("the line was cut in attempt 2").first().waitFor();
  await panel.getByText(/raise ConnectionError/).first().waitFor();
  assert.equal(await panel.locator(".attempt").count(), 3);
  await panel.getByText('"steady"').waitFor();
  await world.shot(page, "run-task");
  await page.keyboard.press("Escape");
  await panel.waitFor({ state: "detached" });
});

test("numbers of a payload are shown as they were written", async () => {
  await page.goto(`${world.base}/runs/${runId}/graph?task=gather`);
  const json = page.getByRole("complementary").locator("pre.json");
  await json.waitFor();
  const text = await json.textContent();
  for (const exact of ['"big": 9007199254740993', '"one": 1.0', '"nothing": -0.0', "1e+100"]) {
    assert.ok(text?.includes(exact), `${exact} in ${text}`);
  }
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download" }).first().click()]);
  assert.equal(download.suggestedFilename(), "gather-result.json");
});

test("a payload is shown by its type: large ones when asked for, bytes in hex, and markup as text", async () => {
  const plan = [
    { id: "large", type: "quick", input: "x".repeat(300_000) },
    { id: "bytes", type: "bytes" },
    { id: "text", type: "text" },
  ];
  const payloads = await world.start("payloads", plan);
  await until("it is done", async () => (await world.api.getRun({ runId: payloads })).run?.status === RunStatus.SUCCEEDED);
  await page.goto(`${world.base}/runs/${payloads}/result`);
  const part = (name: string) => page.locator("section", { has: page.getByRole("button", { name, exact: true }) }).last();
  await part("large").getByRole("button", { name: "Show 293.0 KiB" }).click();
  await part("large").locator("pre.json").waitFor();
  await part("bytes").getByText("0010  10 11 12").waitFor();
  await part("text").getByText("<b>bold</b><script>1</script>").waitFor();
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    part("text").getByRole("button", { name: "Download" }).click(),
  ]);
  assert.equal(download.suggestedFilename(), "text");
  await world.shot(page, "run-payloads");
});

test("a task shows its prompt, and what its attempt recorded when it is asked for", async () => {
  await page.goto(`${world.base}/runs/${runId}/tasks?task=write`);
  const panel = page.getByRole("complementary", { name: "Task write" });
  await panel.getByText("Write about bees.").first().waitFor();
  await panel.getByRole("button", { name: "Prompt and response" }).click();
  await panel.locator("pre.json", { hasText: "9007199254740993" }).waitFor();
});

test("the list of tasks is filtered by status and by words", async () => {
  await page.goto(`${world.base}/runs/${runId}/tasks`);
  await page.locator(".task-row").nth(4).waitFor();
  await page.getByLabel("Status").selectOption("BLOCKED");
  await until("one is left", async () => (await page.locator(".task-row").count()) === 1);
  await page.getByLabel("Status").selectOption("");
  await page.getByLabel("Search tasks").fill("numbers");
  await until("one is left", async () => (await page.locator(".task-row").count()) === 1);
  await page.keyboard.press("Escape");
});

test("the timeline has a bar for each attempt, and zooms", async () => {
  await tab("Timeline");
  const row = page.locator(".time-row", { hasText: "shaky" });
  await row.waitFor();
  assert.equal(await row.locator(".bar.task-failed").count(), 2);
  assert.equal(await row.locator(".bar.task-completed").count(), 1);
  const all = page.getByRole("button", { name: "All" });
  assert.ok(await all.isDisabled());
  await page.getByRole("button", { name: "Zoom in" }).click();
  await until("it is zoomed", () => all.isEnabled());
  await world.shot(page, "run-timeline");
  await all.click();
  await until("all is shown", () => all.isDisabled());
});

test("a plan's step shows its attempts, with what was wrong with a plan that was refused", async () => {
  const refused = await world.start("a plan that is refused", undefined, { stepRetry: { maxAttempts: 1 }, labels: { plan: "cycle" } });
  await until("it failed", async () => (await world.api.getRun({ runId: refused })).run?.status === RunStatus.FAILED);
  const other = await world.open(`/runs/${refused}/timeline`);
  await other.getByRole("button", { name: "plan (iteration 1)" }).click();
  const panel = other.getByRole("complementary", { name: "Step plan (iteration 1)" });
  await panel.locator(".failure li").getByText(/cycle/).first().waitFor();
  await world.shot(other, "run-step");
  assert.deepEqual(other.errors, []);
  await other.close();
});

test("each event is listed with what it changed", async () => {
  await tab("Events");
  await page.locator(".event-row", { hasText: "plan 1" }).click();
  const delta = page.locator(".delta");
  await delta.getByText("PLAN_ACCEPTED").first().waitFor();
  await delta.getByText("run.phase").waitFor();
  await delta.getByText("EXECUTING", { exact: true }).waitFor();
  await world.shot(page, "run-events");
});

test("messages are a conversation", async () => {
  await tab("Messages");
  await page.locator(".said.user", { hasText: "Write about bees." }).waitFor();
  await page.locator(".said.assistant", { hasText: "Bees are busy" }).waitFor();
  await world.shot(page, "run-messages");
});

test("the journal lists the calls with their values", async () => {
  const { entries } = await world.api.listJournal({ runId });
  assert.ok(entries.some((one) => one.entry?.mark !== JournalMark.TRY));
  await tab("Journal");
  await page.locator(".journal .value", { hasText: "Bees are busy, and so is this step" }).waitFor();
  await world.shot(page, "run-journal");
});

test("lines and chunks come into the log while a step writes them", async () => {
  const slow = await world.start("talk", [
    { id: "wait", type: "slow", input: 1.5 },
    { id: "talk", type: "write", depends_on: ["wait"] },
  ]);
  await page.goto(`${world.base}/runs/${slow}/logs`);
  await page.getByText("Nothing has been written yet").waitFor();
  await page.locator(".log .line", { hasText: "the draft begins" }).waitFor();
  await page.locator(".log .chunk", { hasText: "Bees are busy , and so is this step ." }).waitFor();
  await page.getByText("the whole log").waitFor();
  await world.shot(page, "run-logs");
});

test("the views follow the run to its end: answer, another plan, its difference and the result", async () => {
  await page.goto(`${world.base}/runs/${runId}`);
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: /Inbox/ }).click();
  const question = page.getByRole("article");
  await question.getByLabel("Name").fill("Ada");
  await question.getByLabel("age").fill("-1");
  await question.getByRole("button", { name: "Answer" }).click();
  await question.getByText("less than the minimum of 0").first().waitFor();
  await world.shot(page, "inbox");
  await question.getByLabel("age").fill("36");
  await question.getByLabel("colour").selectOption({ label: "blue" });
  await question.getByRole("button", { name: "Answer" }).click();
  await page.getByText("Nobody is asked for anything").waitFor();
  await page.goto(`${world.base}/runs/${runId}/plans`);
  await page.locator(".run-head").getByText("succeeded", { exact: true }).waitFor();
  await page.getByText("Plan 2").waitFor();
  await page.locator(".changes li", { hasText: "again" }).getByText("added").waitFor();
  await page.locator(".changes li", { hasText: "shaky" }).getByText("removed").waitFor();
  await page.getByRole("cell", { name: /iteration completed/ }).first().waitFor();
  await world.shot(page, "run-plans");
  await tab("Result");
  await page.locator("pre.json", { hasText: '"exact": 9007199254740993' }).waitFor();
  const { results } = await world.api.listResults({ runId, taskIds: ["ask"] });
  const answer = new TextDecoder().decode(results[0]!.payload!.data);
  assert.deepEqual(JSON.parse(answer), { name: "Ada", age: 36, colour: "blue" });
  assert.deepEqual(page.errors, []);
});
