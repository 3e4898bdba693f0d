import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { RunStatus } from "../../src/gen/stepwell/v1/types_pb.ts";
import { until, type Watched, World } from "./world.ts";

let world: World;
let runId: string;
let page: Watched;

before(async () => {
  world = await World.start();
  runId = await world.start("A page about bees", [{ id: "page", type: "family", title: "Write the page" }]);
  await until("a child asks", async () => (await world.api.listQuestions({})).questions.length > 0);
  page = await world.open(`/runs/${runId}`);
});
after(() => world.stop());

test("a run's tree has its children, and a child's its parent", async () => {
  const views = page.getByRole("navigation", { name: "Views of the run" });
  await views.getByRole("link", { name: "Tree" }).click();
  await page.getByText("2 child runs started").waitFor();
  const row = (text: RegExp) => page.locator(".kin a", { hasText: text });
  await row(/succeeded.*count the bees.*page/).waitFor();
  await row(/waiting.*send the page.*a person is asked/).waitFor();
  await row(/A page about bees.*this run/).waitFor();
  await world.shot(page, "run-tree");
  await row(/send the page/).click();
  await row(/A page about bees.*parent/).waitFor();
  await row(/send the page.*this run/).waitFor();
  await page.locator(".run-head").getByText(/child of/).waitFor();
  await world.shot(page, "run-tree-child");
});

test("a task that waits for children leads to them", async () => {
  await page.goto(`${world.base}/runs/${runId}/graph`);
  await page.getByRole("link", { name: /Write the page/ }).click();
  await page.getByRole("link", { name: "waits for them" }).click();
  await page.locator(".kin a", { hasText: /count the bees/ }).waitFor();
});

test("the list of runs marks children, and shows those of a tree", async () => {
  await page.getByRole("link", { name: "All child runs of its tree" }).click();
  await page.getByText("2 runs").waitFor();
  await page.getByText(new RegExp(`child of ${runId.slice(0, 8)}`)).first().waitFor();
  assert.equal(await page.locator(".run-row", { hasText: /stepwell\.root/ }).count(), 0);
  await world.shot(page, "runs-tree");
});

test("a child that ends is shown as such beside its parent", async () => {
  await page.goto(`${world.base}/runs/${runId}/tree`);
  const [asked] = (await world.api.listQuestions({})).questions;
  await world.api.cancelRun({ runId: asked!.runId });
  await page.locator(".kin a", { hasText: /cancelled.*send the page/ }).waitFor();
  await until("the parent ends", async () => {
    const { run } = await world.api.getRun({ runId });
    return run?.status === RunStatus.FAILED;
  });
});
