import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { QUEUE, until, World } from "./world.ts";

let world: World;
before(async () => {
  world = await World.start();
});
after(() => world.stop());

test("the service's page lists the connected worker, and a queue that nobody serves once a run waits in it", async () => {
  const page = await world.open("/service");
  const workers = page.locator("section", { has: page.getByRole("heading", { name: "Workers" }) });
  await workers.locator("tbody tr", { hasText: QUEUE }).getByText("idle").waitFor();
  const queues = page.locator("section", { has: page.getByRole("heading", { name: "Queues" }) });
  await queues.locator("tbody tr", { hasText: QUEUE }).waitFor();

  await world.start("nobody does this", [{ id: "a", type: "quick" }], { queue: "nowhere" });
  await queues.locator("tbody tr", { hasText: "nowhere" }).getByText("1 run", { exact: true }).waitFor();

  assert.deepEqual(page.errors, []);
  await page.close();
});

test("the charts begin with what the server has kept, and a worker's row says what it does now", async () => {
  const runId = await world.start("slow", [{ id: "slow", type: "slow" }]);
  const get = async () =>
    (await (await fetch(`${world.base}/pulse`, { headers: { Authorization: `Bearer ${world.token}` } })).json()) as {
      commits: number[];
    };
  await until("the server has kept a sample", async () => (await get()).commits.length > 0, 60_000);
  const page = await world.open("/runs");
  // Without it the page can take no sample of its own.
  await page.route("**/ListRuns", () => undefined);
  await page.goto(`${world.base}/service`);
  const chart = page.locator("section", { has: page.getByRole("heading", { name: "Commits to runs, a second" }) });
  await chart.getByText(/at most .* in the last/).waitFor();
  const workers = page.locator("section", { has: page.getByRole("heading", { name: "Workers" }) });
  await workers.getByRole("link", { name: "slow" }).waitFor();
  await world.shot(page, "service");
  await world.api.cancelRun({ runId });
  assert.deepEqual(page.errors, []);
  await page.close();
});

test("without a worker the page says how to start one", async () => {
  await world.killWorkers();
  const page = await world.open("/service");
  await page.getByText("stepwell worker agent:agent").waitFor();
  await page.close();
});
