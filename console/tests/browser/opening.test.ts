import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { World } from "./world.ts";

let world: World;
before(async () => {
  world = await World.start();
});
after(() => world.stop());

test("`stepwell console` makes a link that opens the server's own page, logged in", async () => {
  const context = await world.browser.newContext();
  const page = await context.newPage();
  const link = await world.link();
  assert.ok(link.startsWith(`${world.base}/#code=`), link);
  await page.goto(link);
  await page.getByText("There is no run yet").waitFor();
  assert.equal(page.url(), `${world.base}/runs`);
  await context.close();
});

test("a page that the command serves itself calls the server by gRPC: live, with commands, over a kill", async () => {
  const context = await world.browser.newContext();
  const page = await context.newPage();
  const link = await world.link("--port", "0");
  assert.ok(!link.startsWith(world.base), link);
  await page.goto(link);
  await page.getByText("There is no run yet").waitFor();
  const runId = await world.start("from afar", [{ id: "a", type: "slow" }]);
  await page.locator(".run-row", { hasText: "from afar" }).getByText("running").waitFor();
  await page.locator(".run-row", { hasText: "from afar" }).click();
  await page.locator(".run-head .pill", { hasText: "running" }).waitFor();
  await world.killServer();
  await page.getByText(/The server is away/).waitFor();
  await world.serve();
  await page.getByText(/The server is away/).waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel the run" }).click();
  await page.locator(".run-head .pill", { hasText: "cancelled" }).waitFor();
  const { run } = await world.api.getRun({ runId });
  assert.equal(run?.actor, "local");
  await context.close();
});
