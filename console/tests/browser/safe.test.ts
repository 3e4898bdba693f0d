import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { until, type Watched, World } from "./world.ts";

let world: World;
let runId: string;

const HOSTILE = `"><img src=x onerror="window.hacked='yes'"><script>window.hacked='yes'</script>`;
const TABS = ["graph", "tasks", "timeline", "events", "logs", "messages", "journal", "plans", "result"];

/** Where a view shows the hostile text, if it isn't in the title of the task's panel. */
const SHOWN: Record<string, string> = {
  events: ".run-head h1",
  logs: ".log .line",
  messages: ".said pre",
  journal: ".run-head h1",
  result: ".json-string",
};

before(async () => {
  world = await World.start();
  runId = await world.start(`Hostile ${HOSTILE}`, undefined, { labels: { [`a`]: HOSTILE.slice(0, 200) } });
  await until("it asks", async () => (await world.api.listQuestions({ runId })).questions.length > 0);
  await until("the hostile task is done", async () => {
    const { tasks } = await world.api.listTasks({ runId });
    return tasks.some((one) => one.task?.taskId === "hostile" && one.task.resultId !== "");
  });
});
after(() => world.stop());

test("names, goals, results, messages and logs that are markup stay text", async () => {
  const page = await world.open("/runs");
  await page.locator(".run-row", { hasText: "onerror" }).waitFor();
  for (const tab of TABS) {
    await page.goto(`${world.base}/runs/${runId}/${tab}?task=hostile`);
    await page.locator(SHOWN[tab] ?? ".panel h2", { hasText: "onerror" }).first().waitFor();
    await page.waitForTimeout(200);
    assert.equal(await page.evaluate(() => (window as { hacked?: string }).hacked), undefined, tab);
    assert.equal(await page.locator("img[src=x]").count(), 0, tab);
  }
  await page.goto(`${world.base}/runs/${runId}/result`);
  await page.locator("pre.json", { hasText: "javascript:alert(1)" }).first().waitFor();
  assert.deepEqual(page.errors, []);
  await page.close();
});

test("addresses that are markup show nothing but text, and no request leaves the server", async () => {
  const page = await world.open("/runs");
  const foreign: string[] = [];
  page.on("request", (request) => {
    if (!request.url().startsWith(world.base)) foreign.push(request.url());
  });
  for (const path of [`/runs/${encodeURIComponent("<img src=x>")}`, `/runs?q=${encodeURIComponent(HOSTILE)}`, "/%3Cscript%3E", "/runs/%zz"]) {
    await page.goto(world.base + path);
    await page.waitForTimeout(300);
    assert.equal(await page.locator("img[src=x]").count(), 0, path);
  }
  assert.deepEqual(foreign, []);
  await page.close();
});

interface Finding {
  id: string;
  impact: string;
  nodes: { html: string; failureSummary: string }[];
}

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** What axe finds in a page that is serious. */
async function findings(page: Watched): Promise<string[]> {
  // The driver evaluates it apart from the page's policy, which lets no script in.
  await page.evaluate(AXE);
  const found = (await page.evaluate(
    "axe.run(document, { resultTypes: ['violations'] }).then((one) => one.violations)",
  )) as Finding[];
  return found
    .filter((one) => one.impact === "serious" || one.impact === "critical")
    .map((one) => `${one.id}: ${one.nodes[0]?.html.slice(0, 200)} ${one.nodes[0]?.failureSummary}`);
}

for (const colorScheme of ["light", "dark"] as const) {
  test(`every page is without a serious finding of axe, and fits 400 pixels, in ${colorScheme}`, async () => {
    const context = await world.browser.newContext({ viewport: { width: 400, height: 800 }, colorScheme });
    const page = await world.open("/runs", context);
    const paths = [
      ...TABS.map((tab) => `/runs/${runId}/${tab}`),
      `/runs/${runId}/graph?task=shaky`,
      `/runs/${runId}/fork`,
      `/compare/${runId}/${runId}`,
      "/runs",
      "/inbox",
      "/start",
      "/service",
    ];
    const wrong: string[] = [];
    for (const path of paths) {
      await page.goto(world.base + path);
      await page.waitForTimeout(700);
      wrong.push(...(await findings(page)).map((one) => `${path} ${one}`));
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      if (wide > 400) wrong.push(`${path} is ${wide} pixels wide`);
      const cut = await page.evaluate(() => {
        const end = (one: Element) => one.getBoundingClientRect().right;
        return [...document.querySelectorAll("nav [aria-current], .axis span")].some((one, at, all) => {
          const next = all[at + 1]?.parentElement === one.parentElement ? all[at + 1]!.getBoundingClientRect().left : 400;
          return end(one) > next;
        });
      });
      if (cut) wrong.push(`${path} has a tab or a mark of time that is cut off or covered`);
      const name = path.replaceAll(runId, "run").replaceAll(/[^a-z]+/g, "-");
      if (colorScheme === "light") await world.shot(page, `narrow${name}`);
    }
    assert.deepEqual(wrong, []);
    assert.deepEqual(page.errors, []);
    await context.close();
  });
}
