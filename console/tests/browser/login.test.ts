import assert from "node:assert/strict";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { READER, STRANGER, World } from "./world.ts";

let world: World;
before(async () => {
  world = await World.start(0);
});
after(() => world.stop());

async function newCode(): Promise<string> {
  const response = await fetch(`${world.base}/session/code`, {
    method: "POST",
    headers: { Authorization: `Bearer ${world.token}` },
  });
  return ((await response.json()) as { code: string }).code;
}

test("a code logs in, and leaves the address and the history", async () => {
  const context = await world.browser.newContext();
  const page = await context.newPage();
  await page.goto(`${world.base}/service#code=${await newCode()}`);
  await page.getByRole("heading", { name: "Service" }).waitFor();
  assert.equal(page.url(), `${world.base}/service`);
  await page.reload();
  await page.getByRole("heading", { name: "Service" }).waitFor();
  assert.deepEqual(await context.cookies(), []);
  await context.close();
});

test("a code that was used before is refused, with the command that makes another", async () => {
  const code = await newCode();
  const body = JSON.stringify({ code });
  const headers = { "Content-Type": "application/json" };
  assert.equal((await fetch(`${world.base}/session`, { method: "POST", body, headers })).status, 200);
  const context = await world.browser.newContext();
  const page = await context.newPage();
  await page.goto(`${world.base}/#code=${code}`);
  await page.getByRole("alert").getByText("stepwell console").waitFor();
  await context.close();
});

test("a token logs in, a wrong one doesn't, and logging out ends all pages of the browser", async () => {
  const context = await world.browser.newContext();
  const page = await context.newPage();
  await page.goto(`${world.base}/inbox`);
  await page.fill("input[type=password]", "stw_wrong");
  await page.click("button[type=submit]");
  await page.getByRole("alert").getByText("refuses this token").waitFor();
  await world.shot(page, "login");
  await world.logIn(page);
  await page.getByRole("heading", { name: "Inbox" }).waitFor();
  const other = await context.newPage();
  await other.goto(`${world.base}/runs`);
  await other.getByText("There is no run yet").waitFor();
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByLabel("Token").waitFor();
  await other.getByLabel("Token").waitFor();
  assert.equal(await page.evaluate(() => localStorage.length), 0);
  await context.close();
});

test("a session that only reads is offered no command, and another tenant's sees nothing", async () => {
  const runId = await world.start("read only", [{ id: "a", type: "quick" }], { queue: "nowhere" });
  const context = await world.browser.newContext();
  const page = await context.newPage();
  await page.goto(`${world.base}/runs/${runId}`);
  await world.logIn(page, READER);
  await page.locator(".run-head h1", { hasText: "read only" }).waitFor();
  const actions = page.getByRole("group", { name: "Actions", exact: true });
  assert.equal(await actions.getByRole("button").count(), 0);
  await page.goto(`${world.base}/start`);
  await page.getByText("it lacks the scope run:write").waitFor();
  await page.getByRole("button", { name: "Log out" }).click();
  await world.logIn(page, STRANGER);
  await page.goto(`${world.base}/runs`);
  await page.getByText("There is no run yet").waitFor();
  await page.goto(`${world.base}/runs/${runId}`);
  await page.getByText(`There is no run ${runId}`).waitFor();
  await context.close();
});

test("a key that the server doesn't take leads back to the login", async () => {
  const context = await world.browser.newContext();
  const page = await context.newPage();
  await page.goto(`${world.base}/runs`);
  await page.evaluate(() => {
    const expires = new Date(Date.now() + 3_600_000).toISOString();
    const session = { key: "stws_00", expires, tenant: "t", subject: "s", scopes: [] };
    localStorage.setItem("stepwell.session", JSON.stringify(session));
  });
  await page.reload();
  await page.getByLabel("Token").waitFor();
  await context.close();
});

test("below a path of a shared host, page, links, log-in and calls work, also after a reload", async (t) => {
  const proxy = createServer((asked, answer) => {
    if (!asked.url!.startsWith("/tools/stepwell/")) return void answer.writeHead(404).end();
    const path = asked.url!.slice("/tools/stepwell".length);
    const passed = request(world.base + path, { method: asked.method!, headers: asked.headers }, (got) => {
      answer.writeHead(got.statusCode!, got.headers);
      got.pipe(answer);
    });
    // The page has gone, and its streams with it.
    passed.on("error", () => answer.destroy());
    answer.on("close", () => passed.destroy());
    asked.pipe(passed);
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const below = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/tools/stepwell`;
  const runId = await world.start("below a path", [{ id: "a", type: "slow" }]);
  const context = await world.browser.newContext();
  t.after(async () => {
    await context.close();
    proxy.closeAllConnections();
    proxy.close();
  });
  const page = await context.newPage();
  const missed: string[] = [];
  page.on("response", (one) => one.status() === 404 && missed.push(one.url()));
  await page.goto(`${below}/#code=${await newCode()}`);
  await page.locator(".run-row", { hasText: "below a path" }).click();
  await page.locator(".run-head").waitFor();
  assert.ok(page.url().startsWith(`${below}/runs/${runId}`), page.url());
  await page.reload();
  await page.locator(".run-head", { hasText: "below a path" }).waitFor();
  await page.locator("header.top").getByRole("link", { name: "Service" }).click();
  await page.getByRole("heading", { name: "Service" }).waitFor();
  assert.equal(page.url(), `${below}/service`);
  await page.goBack();
  await page.locator(".run-head").waitFor();
  assert.deepEqual(missed, []);
});
