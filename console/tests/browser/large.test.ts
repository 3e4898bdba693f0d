import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { effort, largestEffort } from "./effort.ts";
import { type Watched, World } from "./world.ts";

let world: World;
before(async () => {
  world = await World.start();
});
after(() => world.stop());

const TASKS = 10_000;

/** A plan of a root and layers of 500 tasks, each of which follows one of the layer before. */
function wide(): object[] {
  return Array.from({ length: TASKS }, (_, n) => ({
    id: `t${n}`,
    type: "quick",
    ...(n ? { depends_on: [`t${Math.max(0, n - 500)}`] } : {}),
  }));
}

/** Clicks on what a selector finds first. */
function click(page: Watched, selector: string): () => Promise<unknown> {
  return () =>
    page.evaluate((wanted) => {
      const element = document.querySelector<HTMLElement | SVGElement>(wanted);
      if (!element) throw new Error(`nothing is ${wanted}`);
      element.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }));
    }, selector);
}

function clicks(page: Watched, selectors: string[]): Promise<number> {
  return largestEffort(page, selectors.map((one) => click(page, one)));
}

test("a plan of 10,000 tasks is drawn in part, and no input makes the page work on all of it", async () => {
  const runId = await world.start("ten thousand", wide(), { maxParallel: 8 });
  const page = await world.open("/inbox");
  const drawn = await effort(page, async () => {
    await page.goto(`${world.base}/runs/${runId}/graph`);
    await page.locator(".graph svg .node").first().waitFor();
  });
  const nodes = await page.locator(".graph .node").count();
  assert.ok(nodes > 1 && nodes <= 300);
  await world.shot(page, "large-graph");
  const graph = await clicks(page, ["[aria-label=Larger]", "[aria-label=Smaller]", ".tools input[type=checkbox]", ".more summary"]);
  const tabs = await clicks(page, [2, 3, 4, 1, 2].map((n) => `.tabs a:nth-child(${n})`));
  await page.locator(".task-row").first().waitFor();
  const rows = await clicks(page, [".virtual li:nth-child(2) a", ".virtual li:nth-child(4) a"]);
  await world.shot(page, "large-tasks");
  console.log(
    `10,000 tasks, CPU time: graph ${drawn.toFixed(0)} ms; largest of an input: graph ${graph.toFixed(0)} ms, ` +
      `tabs ${tabs.toFixed(0)} ms, rows ${rows.toFixed(0)} ms`,
  );
  assert.ok((await page.locator("*").count()) <= 5_000);
  assert.ok(drawn <= 2_500, `${drawn} ms`);
  for (const took of [graph, tabs, rows]) assert.ok(took <= 200, `${took} ms`);
  assert.deepEqual(page.errors, []);
  await page.close();
});
