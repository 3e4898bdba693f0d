import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { BlockedKind, RunStatus } from "../../src/gen/stepwell/v1/types_pb.ts";
import { until, World } from "./world.ts";

let world: World;
before(async () => {
  world = await World.start();
});
after(() => world.stop());

test("a wait for a person is drawn until now, and goes on", async () => {
  const runId = await world.start("send it", [
    { id: "a", type: "quick" },
    { id: "ask", type: "approve", depends_on: ["a"] },
  ]);
  await until("it asks", async () => (await world.api.listQuestions({ runId })).questions.length > 0);
  const page = await world.open(`/runs/${runId}/timeline`);
  const row = page.locator(".time-row", { hasText: "ask" });
  const took = row.locator(".took", { hasText: /^asks a person [\d.]+s$/ });
  await took.waitFor();
  const [first, bar] = [await took.textContent(), row.locator(".bar.rest")];
  await until("it goes on", async () => (await took.textContent()) !== first);
  await until("it is most of the row", async () => {
    const [whole, part] = [await row.locator(".bars").boundingBox(), await bar.boundingBox()];
    return part!.width > 0.5 * whole!.width;
  }, 60_000);
  await bar.hover();
  const hint = page.locator(".hint");
  await hint.getByText("asks a person").waitFor();
  await hint.getByText(/^from \d\d:\d\d:\d\d\.\d\d\d$/).waitFor();
  await hint.getByText("until now").waitFor();
  await world.shot(page, "timeline-wait");
  const [question] = (await world.api.listQuestions({ runId })).questions;
  const answer = { data: new TextEncoder().encode("true") };
  await world.api.answerQuestion({ runId, questionId: question!.question!.questionId, answer });
  await row.locator(".bar.task-completed").waitFor();
  assert.equal(await bar.count(), 1);
  await row.locator(".took", { hasText: /^[\d.]+s$/ }).waitFor();
  assert.deepEqual(page.errors, []);
  await page.close();
});

test("keys and the wheel zoom, and the map moves what is shown", async () => {
  const runId = await world.start("many", Array.from({ length: 200 }, (_, n) => ({ id: `t${n}`, type: "slow", input: n % 3 })), { maxParallel: 50 });
  await until("it is done", async () => (await world.api.getRun({ runId })).run?.status === RunStatus.SUCCEEDED, 60_000);
  const page = await world.open(`/runs/${runId}/timeline`);
  const says = page.getByText(/200 steps, .* from/);
  await says.waitFor();
  const whole = await says.textContent();
  const marks = page.locator(".axis span");
  assert.ok((await marks.count()) > 3, `${await marks.count()} marks`);
  assert.equal(await marks.first().textContent(), "+0s");
  await page.keyboard.press("+");
  await until("it is zoomed", async () => (await says.textContent()) !== whole);
  const zoomed = await says.textContent();
  await page.keyboard.press("ArrowRight");
  await until("it moved", async () => (await says.textContent()) !== zoomed);
  const moved = await says.textContent();
  const map = (await page.locator(".time-map").boundingBox())!;
  await page.mouse.click(map.x + 5, map.y + 5);
  await until("it moved back", async () => (await says.textContent()) !== moved);
  const place = (await page.locator(".bars").first().boundingBox())!;
  await page.mouse.move(place.x + place.width / 2, place.y + 5);
  await page.keyboard.down("Control");
  const back = await says.textContent();
  await page.mouse.wheel(0, -300);
  await page.keyboard.up("Control");
  await until("the wheel has zoomed", async () => (await says.textContent()) !== back);
  await world.shot(page, "timeline-zoomed");
  await page.keyboard.press("0");
  await until("all is shown", async () => (await says.textContent()) === whole);
  // Only what can be seen is in the document: rows, and one line of the map for each colour.
  assert.ok((await page.locator(".time-row").count()) < 60);
  assert.ok((await page.locator(".time-map path").count()) <= 3);
  assert.deepEqual(page.errors, []);
  await page.close();
});

test("the attempts at a step are told apart by their numbers", async () => {
  const runId = await world.start("shaky", [{ id: "shaky", type: "shaky" }]);
  await until("it is done", async () => (await world.api.getRun({ runId })).run?.status === RunStatus.SUCCEEDED);
  const page = await world.open(`/runs/${runId}/timeline`);
  const bars = page.locator(".time-row", { hasText: "shaky" }).locator(".bar[class*=task-]");
  await bars.nth(2).waitFor();
  const names = await bars.evaluateAll((all) => all.map((one) => one.getAttribute("aria-label") ?? ""));
  assert.deepEqual(names.map((one) => /^attempt \d: \w+/.exec(one)?.[0]), ["attempt 1: failed", "attempt 2: failed", "attempt 3: completed"]);
  assert.ok(names[1]!.includes("held back for") && names[1]!.includes("ConnectionError: the line was cut in attempt 2"), names[1]);
  assert.deepEqual(page.errors, []);
  await page.close();
});

test("a step that waits for its back-off says why it failed, and when it is tried again", async () => {
  const runId = await world.start("later", [
    { id: "shaky", type: "shaky", title: "A shaky step", retry: { initial_backoff: "3600s", max_backoff: "3600s", jitter: 0 } },
  ]);
  await until("it waits", async () => (await world.api.getRun({ runId })).run?.blockedOn === BlockedKind.TIMER);
  const page = await world.open(`/runs/${runId}`);
  const note = page.locator(".run-head .note");
  await note.getByText(/A shaky step failed: ConnectionError: the line was cut in attempt 1 · attempt 2 begins in \d+[hm]\d\d[ms]/).waitFor();
  await page.locator(".node", { hasText: "tries again" }).waitFor();
  await world.shot(page, "run-back-off");
  await page.goto(`${world.base}/runs/${runId}/timeline`);
  await page.locator(".bar.back-off").waitFor();
  await page.locator(".took", { hasText: /^attempt 2 begins in \d+[hm]\d\d[ms]$/ }).waitFor();
  await world.shot(page, "timeline-back-off");
  await note.getByRole("link", { name: "A shaky step" }).click();
  await page.locator("aside", { hasText: "A shaky step" }).waitFor();
  await world.api.retryTask({ runId, taskId: "shaky" });
  await page.locator(".run-head .pill", { hasText: "succeeded" }).waitFor();
  await note.waitFor({ state: "detached" });
  assert.deepEqual(page.errors, []);
  await page.close();
});
