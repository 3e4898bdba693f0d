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

const REPORT = "# Bees\n\nThey are **busy**.\n\n- one\n- [two](javascript:alert(1)) and [three](https://bees.test/)\n\n| bee | trips |\n|---|---|\n| Ada | 3 |\n\n```\n<b>as it is</b>\n```\n";
/** A picture of two by one pixels. */
const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAIAAAB7QOjdAAAAD0lEQVR4nGM4IScnV2EDAAdLAdeBEtMQAAAAAElFTkSuQmCC";

function base64(text: string): string {
  return Buffer.from(text).toString("base64");
}

/** Runs tasks to their end, and opens a view of the run. */
async function shown(plan: object[], tab: string): Promise<void> {
  const runId = await world.start("media", plan);
  await until("it is done", async () => (await world.api.getRun({ runId })).run?.status === RunStatus.SUCCEEDED);
  await page.goto(`${world.base}/runs/${runId}/${tab}`);
}

function section(name: string) {
  return page.locator("section", { has: page.getByRole("button", { name, exact: true }) }).last();
}

test("results are shown as Markdown, a table or a picture by their type, and raw on demand", async () => {
  await shown(
    [
      { id: "report", type: "payload", input: { type: "text/markdown", base64: base64(REPORT) } },
      { id: "rows", type: "quick", input: [{ bee: "Ada", trips: 9007199254740993n.toString() }, { bee: "Eve", honey: 1.5 }] },
      { id: "picture", type: "payload", input: { type: "image/png", base64: PNG } },
    ],
    "result",
  );
  const report = section("report");
  await report.getByRole("heading", { name: "Bees", level: 4 }).waitFor();
  assert.deepEqual(await report.getByRole("link").evaluateAll((all) => all.map((one) => (one as HTMLAnchorElement).href)), ["https://bees.test/"]);
  await report.getByRole("cell", { name: "Ada" }).waitFor();
  await report.locator("pre", { hasText: "<b>as it is</b>" }).waitFor();
  const rows = section("rows");
  assert.deepEqual(await rows.getByRole("columnheader").allTextContents(), ["bee", "trips", "honey"]);
  const canvas = section("picture").locator("canvas");
  await until("the picture is drawn", async () => (await canvas.evaluate((one) => (one as HTMLCanvasElement).width)) === 2);
  await world.shot(page, "run-media");
  await report.getByRole("button", { name: "Raw" }).click();
  await report.locator("pre", { hasText: "# Bees" }).waitFor();
  await rows.getByRole("button", { name: "Tree" }).click();
  await rows.locator("pre.json", { hasText: '"trips": "9007199254740993"' }).waitFor();
  assert.deepEqual(page.errors, []);
});

test("JSON of 100 KiB is folded as a tree, and keys unfold a part of it", async () => {
  const orders = Array.from({ length: 1_000 }, (_, id) => ({ id, lines: [{ what: "honey", many: id, note: "x".repeat(40) }] }));
  await shown([{ id: "large", type: "quick", input: { orders, name: "many" } }], "result");
  const tree = section("large").locator("pre.json");
  await tree.getByText("1000 items").waitFor();
  assert.ok((await tree.locator("*").count()) < 200);
  await tree.getByRole("button", { name: "Unfold" }).press("Enter");
  await tree.locator(".json-fold").first().waitFor();
  const fold = tree.getByRole("button", { name: "Unfold" }).first();
  await fold.focus();
  await page.keyboard.press("Space");
  await tree.getByText('"id"').first().waitFor();
  await world.shot(page, "run-tree");
  await section("large").getByRole("button", { name: "Fold all", exact: true }).click();
  assert.equal(await tree.textContent(), '{\n  "orders": [ 1000 items ],\n  "name": "many"\n}\n');
});

test("a text that turns its surroundings round is named, and a terminal's colours are colours", async () => {
  await shown([{ id: "strange", type: "say", input: "a\u202eb \x1b[31mred\x1b[0m \u0007 end" }], "logs");
  const line = page.locator(".log", { hasText: "end" });
  await line.locator(".ansi-1", { hasText: "red" }).waitFor();
  assert.deepEqual(await line.locator(".strange").allTextContents(), ["RLO", "BEL"]);
  await world.shot(page, "run-strange");
  await world.start("turned \u202e round", [{ id: "a", type: "quick" }], { labels: { who: "א" } });
  await page.goto(`${world.base}/runs`);
  await page.locator(".run-row b", { hasText: "turned ⟨RLO⟩ round" }).waitFor();
  assert.ok(!(await page.locator("body").innerHTML()).includes("\u202e"));
  assert.deepEqual(page.errors, []);
});
