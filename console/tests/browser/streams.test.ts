import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type Request } from "playwright-core";
import { until, type Watched, World } from "./world.ts";

let world: World;
before(async () => {
  world = await World.start();
});
after(() => world.stop());

const STREAMS = /\/(WatchRun|WatchRuns|WatchLogs)$/;

/** Follows which streams a page holds. */
function streamsOf(page: Watched): Set<Request> {
  const open = new Set<Request>();
  page.on("request", (request) => STREAMS.test(request.url()) && open.add(request));
  page.on("requestfinished", (request) => open.delete(request));
  page.on("requestfailed", (request) => open.delete(request));
  return open;
}

function chain(length: number): object[] {
  return Array.from({ length }, (_, n) => ({
    id: `t${n}`,
    type: "slow",
    input: 0.1,
    ...(n ? { depends_on: [`t${n - 1}`] } : {}),
  }));
}

test("no event is lost or shown twice when the server is killed and comes back", async () => {
  const runId = await world.start("a long chain", chain(60));
  const page = await world.open(`/runs/${runId}/events`);
  await page.locator(".event-row").first().waitFor();
  for (let turn = 0; turn < 2; turn++) {
    await world.killServer();
    await page.getByText(/The server is away/).waitFor();
    if (!turn) await world.shot(page, "away");
    await world.serve();
    await page.getByText(/The server is away/).waitFor({ state: "detached" });
  }
  await page.locator(".run-head .pill", { hasText: "succeeded" }).waitFor({ timeout: 60_000 });
  const { run } = await world.api.getRun({ runId });
  const last = Number(run!.lastEvent);
  await page.getByText(`events 1 to ${last}`).waitFor();
  const numbers = await allNumbers(page, last);
  assert.deepEqual(numbers, Array.from({ length: last }, (_, n) => n + 1));
  await page.goto(`${world.base}/runs/${runId}/graph`);
  await page.getByRole("link", { name: /t59 completed/ }).waitFor();
  assert.deepEqual(page.errors, []);
  await page.close();
});

/** Scrolls through the list and returns the numbers of all events, in their order. */
async function allNumbers(page: Watched, last: number): Promise<number[]> {
  const list = page.getByRole("region", { name: "Events" });
  const found = new Map<number, number>();
  for (let top = 0; top <= last * 30; top += 300) {
    await list.evaluate((element, to) => element.scrollTo(0, to), top);
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve))));
    const rows = await page.locator(".virtual li").evaluateAll((items) =>
      items.map((one) => [Number(one.getAttribute("aria-posinset")), Number(one.querySelector("code")?.textContent)]),
    );
    for (const [place, number] of rows) found.set(place!, number!);
  }
  return [...found].sort(([a], [b]) => a - b).map(([, number]) => number);
}

test("the list of runs goes on after a kill of the server", async () => {
  const page = await world.open("/runs");
  await page.locator(".run-row").first().waitFor();
  await world.killServer();
  await page.getByText(/The server is away/).waitFor();
  await world.serve();
  await world.start("after the kill", [{ id: "a", type: "quick" }]);
  await page.locator(".run-row", { hasText: "after the kill" }).getByText("succeeded").waitFor();
  await page.close();
});

test("a page holds one stream, whatever it shows, and a hidden one none", async () => {
  const runId = await world.start("watched", chain(30));
  const page = await world.open("/runs");
  const open = streamsOf(page);
  for (const to of [`/runs/${runId}/graph`, `/runs/${runId}/logs`, `/runs/${runId}/events`, "/inbox", "/service", "/runs"]) {
    await page.evaluate((path) => {
      const link = document.createElement("a");
      link.href = path;
      document.body.append(link);
      link.click();
      link.remove();
    }, to);
    // A stream that a page leaves open is found at the next page at the latest: it never ends.
    await until(`one stream at ${to}`, async () => open.size === 1);
  }
  await hide(page, true);
  await until("a hidden page has no stream", async () => open.size === 0);
  await world.start("while it was hidden", [{ id: "a", type: "quick" }]);
  await hide(page, false);
  await page.locator(".run-row", { hasText: "while it was hidden" }).getByText("succeeded").waitFor();
  await until("the page has one stream again", async () => open.size === 1);
  await page.close();
});

async function hide(page: Watched, hidden: boolean): Promise<void> {
  await page.evaluate((is) => {
    Object.defineProperty(document, "visibilityState", { configurable: true, get: () => (is ? "hidden" : "visible") });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
}

test("ten pages at once are all live, and can all be worked with", async () => {
  const pages = await Promise.all(Array.from({ length: 10 }, () => world.open("/runs")));
  const runId = await world.start("seen by all", [{ id: "a", type: "slow", input: 1 }]);
  for (const page of pages) {
    await page.locator(".run-row", { hasText: "seen by all" }).getByText("succeeded").waitFor({ timeout: 30_000 });
  }
  const [first, last] = [pages[0]!, pages[9]!];
  for (const page of [first, last]) {
    await page.goto(`${world.base}/runs/${runId}/result`);
    await page.locator("pre.json", { hasText: "done" }).waitFor();
    assert.deepEqual(page.errors, []);
  }
  await Promise.all(pages.map((page) => page.close()));
});
