import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { RunStatus } from "../../src/gen/stepwell/v1/types_pb.ts";
import { until, type Watched, World } from "./world.ts";

let world: World;
before(async () => {
  world = await World.start();
});
after(() => world.stop());

/** Which node the keyboard is at. */
async function focused(page: Watched): Promise<string | null> {
  return await page.evaluate(() => document.activeElement?.getAttribute("data-node") ?? null);
}

test("keys and clicks go along edges, and an edge to a running task is drawn so", async () => {
  const runId = await world.start("edges", [
    { id: "a", type: "quick" },
    { id: "b", type: "slow", depends_on: ["a"] },
    { id: "c", type: "quick", depends_on: ["b"] },
  ]);
  const page = await world.open(`/runs/${runId}/graph`);
  await page.locator(".edges .running .line").waitFor({ state: "attached" });
  assert.equal(await page.locator(".edges .running").count(), 1);
  await page.locator("[data-node=a]").focus();
  await page.keyboard.press("ArrowRight");
  assert.equal(await focused(page), "b");
  await page.keyboard.press("Enter");
  await page.getByRole("complementary", { name: "Task b" }).waitFor();
  // With a task beside the graph, that goes along.
  await page.keyboard.press("ArrowRight");
  await page.getByRole("complementary", { name: "Task c" }).waitFor();
  await page.locator(".edges .reach").first().dispatchEvent("click");
  await page.getByRole("complementary", { name: "Task b" }).waitFor();
  await page.locator(".edges .reach").first().dispatchEvent("click");
  await page.getByRole("complementary", { name: "Task a" }).waitFor();
  await world.api.cancelRun({ runId });
  assert.deepEqual(page.errors, []);
  await page.close();
});

test("a graph fits its window at first, and has a map once it is larger", async () => {
  const fan = Array.from({ length: 120 }, (_, n) => ({ id: `w${n}`, type: "quick", depends_on: ["root"] }));
  const runId = await world.start("fan", [{ id: "root", type: "quick" }, ...fan]);
  const page = await world.open(`/runs/${runId}/graph`);
  const graph = page.getByRole("region", { name: "Graph of the plan" });
  await graph.locator(".node").nth(120).waitFor();
  const overflow = () => graph.evaluate((one) => [one.scrollWidth - one.clientWidth, one.scrollHeight - one.clientHeight]);
  assert.deepEqual(await overflow(), [0, 0]);
  assert.equal(await page.locator(".graph-map").count(), 0);
  for (let turn = 0; turn < 4; turn++) await page.keyboard.press("+");
  await page.locator(".graph-map .window").waitFor();
  assert.notDeepEqual(await overflow(), [0, 0]);
  const corner = await page.locator(".graph-map").boundingBox();
  await page.mouse.click(corner!.x + corner!.width - 2, corner!.y + corner!.height - 2);
  await until("it has moved", () => graph.evaluate((one) => one.scrollLeft > 0));
  await world.shot(page, "graph-map");
  await page.keyboard.press("0");
  await page.locator(".graph-map").waitFor({ state: "detached" });
  assert.deepEqual(await overflow(), [0, 0]);
  assert.deepEqual(page.errors, []);
  await page.close();
});

test("a graph says which plan each task came with once there are several", async () => {
  const runId = await world.start("Write about bees");
  const questions = async () => (await world.api.listQuestions({ runId })).questions;
  await until("it asks", async () => (await questions()).length > 0);
  const page = await world.open(`/runs/${runId}/graph`);
  await page.getByRole("link", { name: /Gather the numbers completed/ }).waitFor();
  assert.equal(await page.getByRole("link", { name: /plan 1/ }).count(), 0);
  const [asked] = await questions();
  const answer = { data: new TextEncoder().encode('{"name": "Ada", "age": 36}') };
  await world.api.answerQuestion({ runId, questionId: asked!.question!.questionId, answer });
  await until("it is done", async () => (await world.api.getRun({ runId })).run?.status === RunStatus.SUCCEEDED);
  await page.getByRole("link", { name: /Look again completed.*plan 2/ }).waitFor();
  await page.getByRole("link", { name: /Write a draft completed.*plan 1/ }).waitFor();
  await world.shot(page, "graph-plans");
  assert.deepEqual(page.errors, []);
  await page.close();
});
