import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { largestEffort } from "./effort.ts";
import { until, type Watched, World } from "./world.ts";

let world: World;
before(async () => {
  world = await World.start();
});
after(() => world.stop());

function titles(page: Watched): Promise<string[]> {
  return page.locator(".run-row b").allTextContents();
}

async function shows(page: Watched, wanted: string[]): Promise<void> {
  await until(`the list is ${wanted.join(", ")}`, async () => {
    const found = await titles(page);
    return JSON.stringify(found.sort()) === JSON.stringify([...wanted].sort());
  });
}

test("the list shows runs as they come and go, without a reload", async () => {
  const page = await world.open("/runs");
  await page.getByText("There is no run yet").waitFor();
  const quick = await world.start("a quick one", [{ id: "a", type: "quick" }]);
  const row = page.locator(".run-row", { hasText: "a quick one" });
  await row.getByText("succeeded").waitFor();
  await world.start("nobody does this", [{ id: "a", type: "quick" }], { queue: "nowhere" });
  const waiting = page.locator(".run-row", { hasText: "nobody does this" });
  await waiting.getByText(/^no worker (of|serves) queue nowhere/).waitFor();
  await waiting.getByText(/^since/).waitFor();
  await world.api.deleteRun({ runId: quick });
  await shows(page, ["nobody does this"]);
  assert.deepEqual(page.errors, []);
  await page.close();
});

test("status, cause, pipeline and label filter the list, and the address keeps them", async () => {
  const other = { pipelineId: "other", labels: { team: "ink" } };
  await world.start("of another pipeline", [{ id: "a", type: "quick" }], other);
  await world.start("it fails", [{ id: "a", type: "fail" }]);
  const page = await world.open("/runs");
  await page.locator(".run-row", { hasText: "it fails" }).getByText("failed", { exact: true }).waitFor();
  await page.getByRole("button", { name: /^failed/ }).click();
  await shows(page, ["it fails"]);
  assert.match(page.url(), /status=FAILED/);
  await page.reload();
  await shows(page, ["it fails"]);
  await page.getByRole("button", { name: /^failed/ }).click();
  await page.getByLabel("Waits for").selectOption("WORKER");
  await shows(page, ["nobody does this"]);
  await page.getByLabel("Waits for").selectOption("");
  await page.getByRole("textbox", { name: "Pipeline" }).fill("other");
  await shows(page, ["of another pipeline"]);
  await page.getByRole("textbox", { name: "Pipeline" }).fill("");
  // At once after the other field: neither may lose what is typed into it.
  await page.getByLabel("Search runs").fill("team=ink");
  await page.waitForURL(/q=team/);
  assert.doesNotMatch(page.url(), /pipeline=/);
  await shows(page, ["of another pipeline"]);
  await world.shot(page, "runs-filtered");
  // Typed at last, and left at once: the next page's address is its own.
  await page.getByLabel("Search runs").fill("team=other");
  await page.keyboard.press("Tab");
  await page.getByRole("link", { name: "Service" }).click();
  await page.getByRole("heading", { name: "Workers" }).waitFor();
  await page.waitForTimeout(300);
  assert.doesNotMatch(page.url(), /q=team/);
  await page.close();
});

test("a row says why its run failed or what it asks, and columns and filters are kept", async () => {
  const page = await world.open("/runs?status=FAILED");
  const row = page.locator(".run-row", { hasText: "it fails" });
  await row.getByText("NonRetryable: it can't be done").waitFor();
  await page.getByRole("button", { name: "failed 1" }).waitFor();
  await page.getByText("Filters", { exact: true }).click();
  await page.getByLabel("Name of this filter").fill("bad ones");
  await page.getByRole("button", { name: "Save this filter" }).click();
  await page.goto(`${world.base}/runs`);
  await page.getByText("Columns", { exact: true }).click();
  for (const one of ["labels", "tokens", "duration"]) await page.getByLabel(one, { exact: true }).check();
  await page.keyboard.press("Escape");
  await page.getByText("Columns", { exact: true }).click();
  const spent = await world.start("spends", [{ id: "n", type: "numbers" }, { id: "a", type: "approve", depends_on: ["n"] }], { labels: { team: "red" } });
  const spends = page.locator(".run-row", { hasText: "spends" });
  await spends.getByText("asks: Send it?").waitFor();
  assert.deepEqual((await spends.locator(".extra").allTextContents()).slice(0, 2), ["team=red", "120 + 40"]);
  await world.shot(page, "runs-columns");
  await page.reload();
  await spends.locator(".extra").first().waitFor();
  await page.getByText("Filters", { exact: true }).click();
  await page.getByRole("link", { name: "bad ones" }).click();
  await shows(page, ["it fails"]);
  await world.api.cancelRun({ runId: spent });
  await page.evaluate(() => localStorage.removeItem("stepwell.columns"));
  assert.deepEqual(page.errors, []);
  await page.close();
});

test("a search finds a run by the beginning of its id, and by words of its goal", async () => {
  const runId = await world.start("Find THIS needle", [{ id: "a", type: "quick" }]);
  const page = await world.open("/runs");
  await page.keyboard.press("/");
  await page.keyboard.type(runId.slice(0, 8));
  await shows(page, ["Find THIS needle"]);
  await page.getByLabel("Search runs").fill("needle this");
  await shows(page, ["Find THIS needle"]);
  await page.getByText(/whose goals were looked at/).waitFor();
  await page.getByLabel("Search runs").fill("no such words");
  await page.getByText("No run matches").waitFor();
  assert.deepEqual(page.errors, []);
  await page.close();
});

test("keys move through the list and open a run", async () => {
  const page = await world.open("/runs");
  await page.locator(".run-row").first().waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("k");
  const first = await page.locator(".run-row.chosen").getAttribute("href");
  assert.equal(first, await page.locator(".run-row").first().getAttribute("href"));
  await page.keyboard.press("Enter");
  await page.locator(".run-head h1").waitFor();
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await world.shot(page, "keys");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.keyboard.press("r");
  await page.locator(".run-row").first().waitFor();
  await page.keyboard.press("t");
  assert.match((await page.locator(".run-row time").first().textContent()) ?? "", /^\d{4}-\d\d-\d\d /);
  await page.close();
});

test("of 2,000 runs only the rows that can be seen are in the document, and each key is answered at once", async () => {
  for (let batch = 0; batch < 50; batch++) {
    const starts = Array.from({ length: 40 }, (_, n) => world.start(`run ${batch * 40 + n}`, undefined, { queue: "later" }));
    await Promise.all(starts);
  }
  const page = await world.open("/runs");
  await page.locator(".run-row").first().waitFor();
  const list = page.getByRole("region", { name: "Runs" });
  await until("all runs are there", async () => {
    await list.evaluate((element) => element.scrollTo(0, element.scrollHeight));
    return (await page.getByRole("status").first().textContent())?.includes("2,0") || false;
  });
  assert.ok((await page.locator(".run-row").count()) < 60);
  await list.evaluate((element) => element.scrollTo(0, 0));
  await world.shot(page, "runs-many");
  const press = (key: string) => () =>
    page.evaluate(
      (pressed) => document.body.dispatchEvent(new KeyboardEvent("keydown", { key: pressed, bubbles: true, cancelable: true })),
      key,
    );
  const work = await largestEffort(page, ["j", "j", "k", "j", "j", "j"].map(press));
  console.log(`2,000 runs: a key costs ${work.toFixed(0)} ms of CPU time at most`);
  assert.ok(work <= 150, `${work} ms`);
  assert.deepEqual(page.errors, []);
  await page.close();
});
