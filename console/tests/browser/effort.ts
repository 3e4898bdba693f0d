// The work that a page does for an input: CPU time, which other processes of the machine don't change.
import type { Page } from "playwright-core";

/** Returns the CPU time of a page's main thread, in milliseconds, from an input to the picture after it. */
export async function effort(page: Page, input: () => Promise<unknown>): Promise<number> {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const spent = async (): Promise<number> => {
    const { metrics } = await session.send("Performance.getMetrics");
    return 1_000 * metrics.find((one) => one.name === "TaskDuration")!.value;
  };
  const before = await spent();
  await input();
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve))));
  const took = (await spent()) - before;
  await session.detach();
  return took;
}

/** Returns the largest effort of some inputs. */
export async function largestEffort(page: Page, inputs: (() => Promise<unknown>)[]): Promise<number> {
  let largest = 0;
  for (const input of inputs) largest = Math.max(largest, await effort(page, input));
  return largest;
}
