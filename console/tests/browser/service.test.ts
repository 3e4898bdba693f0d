import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { QUEUE, World } from "./world.ts";

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
