import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ExecutionStatus, RunStatus } from "../../src/gen/stepwell/v1/types_pb.ts";
import { until, type Watched, World } from "./world.ts";

let world: World;
let page: Watched;

before(async () => {
  world = await World.start();
  page = await world.open("/runs");
});
after(() => world.stop());

async function show(runId: string, rest = ""): Promise<void> {
  await page.goto(`${world.base}/runs/${runId}${rest}`);
  await page.locator(".run-head h1").waitFor();
}

/** Opens a command's dialog and sends it. */
async function command(name: string, send: string, reason = "because"): Promise<void> {
  await page.getByRole("group", { name: "Actions", exact: true }).getByRole("button", { name }).click();
  const dialog = page.getByRole("dialog");
  if (reason) await dialog.getByLabel("Why (optional)").fill(reason);
  await dialog.getByRole("button", { name: send }).click();
  await dialog.waitFor({ state: "detached" });
}

async function stands(status: string): Promise<void> {
  await page.locator(".run-head .pill", { hasText: status }).waitFor();
}

test("a run is paused, resumed, stopped and cancelled, with the reason", async () => {
  const runId = await world.start("long", [{ id: "a", type: "slow" }]);
  await show(runId);
  await stands("running");
  await command("Pause", "Pause", "lunch");
  await stands("paused");
  await page.getByText("paused: lunch").waitFor();
  await command("Resume", "Resume");
  await stands("running");
  await command("Stop", "Stop");
  await page.getByText("ends after this iteration").waitFor();
  await command("Cancel", "Cancel the run");
  await stands("cancelled");
  const { run } = await world.api.getRun({ runId });
  assert.deepEqual([run?.status, run?.reason], [RunStatus.CANCELLED, "because"]);
  await command("Delete", "Delete", "");
  await page.waitForURL(`${world.base}/runs`);
  await assert.rejects(world.api.getRun({ runId }), /not/);
});

test("a failed run is resumed, and shows its failure before and after", async () => {
  const runId = await world.start("it fails", [{ id: "f", type: "fail" }]);
  await show(runId);
  await stands("failed");
  await page.locator(".run-head").getByText("it can't be done").first().waitFor();
  const before = (await world.api.getRun({ runId })).run!.version;
  await command("Resume", "Resume");
  await until("it failed again", async () => {
    const { run } = await world.api.getRun({ runId });
    return run!.version > before && run!.status === RunStatus.FAILED;
  });
  await stands("failed");
});

test("a budget is raised, and lowering it is refused with the field", async () => {
  const plan = [
    { id: "a", type: "numbers" },
    { id: "b", type: "numbers", depends_on: ["a"] },
  ];
  const runId = await world.start("dear", plan, { budget: { inputTokens: 100n } });
  await show(runId);
  await stands("paused");
  await page.getByText(/its budget is used up/).waitFor();
  await page.getByRole("button", { name: "Budget" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel(/Tokens in/).fill("5");
  await dialog.getByRole("button", { name: "Raise" }).click();
  await dialog.getByRole("alert").getByText("budget.input_tokens", { exact: true }).waitFor();
  await dialog.getByLabel(/Tokens in/).fill("1000");
  await dialog.getByRole("button", { name: "Raise" }).click();
  await stands("succeeded");
});

test("a task is skipped, and another one is run again", async () => {
  const plan = [
    { id: "f", type: "fail", on_failure: "ON_FAILURE_SKIP_DEPENDENTS" },
    { id: "g", type: "quick", depends_on: ["f"] },
    { id: "slow", type: "slow" },
  ];
  const runId = await world.start("mixed", plan);
  await show(runId, "/tasks?task=f");
  const panel = page.getByRole("complementary");
  await panel.locator("> .row .mark.task-failed").waitFor();
  await panel.getByRole("button", { name: "Run again" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Run again" }).click();
  await until("a second attempt failed", async () => {
    const { executions } = await world.api.listExecutions({ runId, taskId: "f" });
    return executions.length === 2;
  });
  await page.goto(`${world.base}/runs/${runId}/tasks?task=slow`);
  await panel.getByRole("button", { name: "Skip" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Skip" }).click();
  await panel.locator(".mark.task-skipped").waitFor();
});

test("an outcome that nobody knows is settled", async () => {
  const runId = await world.start("charge", [{ id: "c", type: "charge" }]);
  await until("the effect began", async () => (await world.api.listJournal({ runId })).entries.length > 0);
  await world.killWorkers();
  world.work();
  await until("its outcome is unknown", async () => {
    const { executions } = await world.api.listExecutions({ runId });
    return executions.some((one) => one.status === ExecutionStatus.UNKNOWN_OUTCOME);
  }, 60_000);
  await show(runId, "/tasks?task=c");
  const panel = page.getByRole("complementary");
  await panel.getByText(/Nobody knows what became of the call/).waitFor();
  await panel.getByRole("button", { name: "Settle it" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Result, as JSON").fill("{");
  await dialog.getByRole("button", { name: "Settle" }).click();
  await dialog.getByRole("alert").getByText("line 1").waitFor();
  await dialog.getByLabel("Result, as JSON").fill('"found"');
  await world.shot(page, "settle");
  await dialog.getByRole("button", { name: "Settle" }).click();
  await stands("succeeded");
});

test("approvals and choices of all runs are answered in the inbox, which follows them", async () => {
  await page.goto(`${world.base}/inbox`);
  await page.getByText("Nobody is asked for anything").waitFor();
  const runId = await world.start("send it", [{ id: "a", type: "approve" }]);
  const question = page.getByRole("article", { name: `Question of run ${runId.slice(0, 8)}` });
  await question.getByText("Send it?").waitFor();
  await question.getByRole("button", { name: "Yes" }).click();
  await question.waitFor({ state: "detached" });
  await until("it succeeded", async () => (await world.api.getRun({ runId })).run?.status === RunStatus.SUCCEEDED);
});

test("a run is started with a plan, an input of exact numbers, labels and a budget", async () => {
  await page.goto(`${world.base}/start`);
  await page.getByLabel("Pipeline", { exact: true }).fill("console");
  await page.getByLabel("Goal").fill("Started by hand");
  await page.getByText("A form for the input, from another").click();
  const schema = { type: "object", properties: { big: { type: "integer" } }, required: ["big"] };
  await page.getByLabel("JSON schema").fill(JSON.stringify(schema));
  await page.getByLabel("big").fill("many");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.getByRole("alert").getByText("big: many is no number").waitFor();
  await page.getByLabel("big").fill("9007199254740993");
  await page.getByText("A plan of your own").click();
  await page.getByLabel("Tasks, as JSON").fill('[{"id": "a", "type": "quick", "input": 1.0}]');
  await page.getByText("Labels and budget").click();
  await page.getByLabel(/^Labels/).fill("team=ink");
  await page.getByLabel("Tokens in").fill("1000");
  await world.shot(page, "start");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await stands("succeeded");
  const runId = page.url().split("/").at(-1)!;
  const { run } = await world.api.getRun({ runId });
  assert.deepEqual([run?.spec?.goal, run?.spec?.labels, run?.budget?.inputTokens], ["Started by hand", { team: "ink" }, 1_000n]);
  const { results } = await world.api.listResults({ runId, taskIds: ["a"] });
  assert.equal(new TextDecoder().decode(results[0]!.payload!.data), "1.0");
});

test("the input's form is the one that the queue's worker gives", async () => {
  await page.goto(`${world.base}/start`);
  await page.getByLabel("Pipeline", { exact: true }).fill("console");
  await page.getByText(/^The fields are those that worker .* gives/).waitFor();
  assert.equal(await page.getByLabel(/^how_many/).inputValue(), "3");
  await page.getByLabel("Author").fill("Ada");
  await world.shot(page, "start-form");
  await page.getByLabel("Pipeline", { exact: true }).fill("another");
  await page.getByLabel("Input, as JSON").waitFor();
  await page.getByLabel("Pipeline", { exact: true }).fill("console");
  await page.getByLabel("Author").fill("Ada");
  await page.getByText("A plan of your own").click();
  await page.getByLabel("Tasks, as JSON").fill('[{"id": "a", "type": "given"}]');
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await stands("succeeded");
  const { results } = await world.api.listResults({ runId: page.url().split("/").at(-1)!, taskIds: ["a"] });
  assert.equal(new TextDecoder().decode(results[0]!.payload!.data), '{"author":"Ada","how_many":3}');
});

test("a fork starts from the version of the slider, after the check, and is compared with its parent", async () => {
  const plan = [
    { id: "a", type: "numbers" },
    { id: "b", type: "quick", input: 1, depends_on: ["a"] },
  ];
  const runId = await world.start("to be forked", plan);
  await until("it succeeded", async () => (await world.api.getRun({ runId })).run?.status === RunStatus.SUCCEEDED);
  await page.goto(`${world.base}/runs/${runId}/fork`);
  const slider = page.getByRole("slider");
  const newest = Number(await slider.getAttribute("max"));
  await page.getByText(`From version ${newest} of ${newest}`).waitFor();
  await slider.focus();
  await page.keyboard.press("Home");
  await page.waitForURL(/at=1$/);
  await page.getByText("From version 1 of").waitFor();
  await page.getByText(/0 results kept, 0 completed tasks run again, 2 tasks still to do/).waitFor();
  await page.goto(`${world.base}/runs/${runId}/fork?at=${newest}`);
  await page.getByText(/2 results kept/).waitFor();
  await page.getByLabel("Goal").fill("Another goal");
  await page.locator(".note").getByText(/goal/).waitFor();
  await world.shot(page, "fork");
  await page.getByRole("button", { name: "Start the fork" }).click();
  await page.waitForURL((url) => /^\/runs\/[^/]+$/.test(url.pathname) && !url.pathname.includes(runId));
  await stands("succeeded");
  await page.getByRole("link", { name: "compare", exact: true }).click();
  await page.getByRole("row", { name: /Another goal/ }).waitFor();
  assert.equal(await page.getByText("the same result").count(), 2);
  await world.shot(page, "compare");
  assert.deepEqual(page.errors, []);
});

test("a fork that doesn't fit says why and can't be started", async () => {
  const runId = await world.start("no plan yet", undefined, { queue: "nowhere" });
  await page.goto(`${world.base}/runs/${runId}/fork`);
  await page.getByRole("textbox", { name: "Goal" }).waitFor();
  await page.locator(".problem").getByText(/no plan/).first().waitFor();
  assert.equal(await page.getByRole("button", { name: "Start the fork" }).isDisabled(), true);
});
