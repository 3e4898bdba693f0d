import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { RunStatus } from "../../src/gen/stepwell/v1/types_pb.ts";
import { READER, until, type Watched, World } from "./world.ts";

let world: World;
let runId: string;
let page: Watched;

before(async () => {
  world = await World.start();
  runId = await world.start("Answer the colleague", [{ id: "note", type: "receive", input: "note" }]);
  page = await world.open(`/runs/${runId}/signals`);
});
after(() => world.stop());

const form = () => page.getByRole("form", { name: "Send a signal" });

async function send(name: string, value: string): Promise<void> {
  await form().getByLabel("Name of the signal").fill(name);
  await form().getByLabel("Value").fill(value);
  await form().getByRole("button", { name: "Send the signal" }).click();
}

test("a signal that no step waits for is kept and shown with its sender", async () => {
  await send("prices", '{"from": 12}');
  const kept = page.locator(".tab .card", { hasText: "prices" });
  await kept.getByText(/1 · from local/).waitFor();
  await kept.getByText("12", { exact: true }).waitFor();
  await world.shot(page, "run-signals");
});

test("a value that is no JSON is refused before it is sent", async () => {
  await send("note", "{not json");
  await page.getByRole("alert").waitFor();
  const { signals } = await world.api.listSignals({ runId });
  assert.deepEqual(signals.map((one) => one.name), ["prices"]);
});

test("a waiting run leads to the form, and the signal that it waits for ends it", async () => {
  await page.getByRole("link", { name: "send it" }).click();
  await send("note", '"look at the prices, too"');
  await until("the run ends", async () => (await world.api.getRun({ runId })).run?.status === RunStatus.SUCCEEDED);
  await form().waitFor({ state: "detached" });
  await page.goto(`${world.base}/runs/${runId}/result`);
  await page.getByText("look at the prices, too").first().waitFor();
  assert.deepEqual(page.errors, []);
});

test("a caller that only reads sees the signals and no form", async () => {
  const context = await world.browser.newContext();
  const reading = (await context.newPage()) as Watched;
  await reading.goto(`${world.base}/runs/${runId}/signals`);
  await world.logIn(reading, READER);
  await reading.locator(".tab .card", { hasText: "prices" }).waitFor();
  assert.equal(await reading.getByRole("form", { name: "Send a signal" }).count(), 0);
  await context.close();
});
