// A server with a worker and a browser, all real, for the tests of one file.
import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { type Client, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { Orchestrator } from "../../src/gen/stepwell/v1/orchestrator_pb.ts";
import { planOf } from "../../src/model/planJson.ts";

const CONSOLE = process.cwd();
const BIN = path.resolve(CONSOLE, "../.venv/bin");
const CHROMIUM = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
const SHOTS = path.join(CONSOLE, "build/screenshots");
export const QUEUE = "console";

/** A token that only reads, and one of another tenant. */
export const READER = "stw_reader";
export const STRANGER = "stw_stranger";

function sha256(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Waits until something is so, and says what is not so for too long. */
export async function until<T>(what: string, look: () => Promise<T | undefined | false>, ms = 20_000): Promise<T> {
  const end = Date.now() + ms;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) throw new Error(`not within ${ms} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

export class World {
  readonly folder = mkdtempSync(path.join(tmpdir(), "stepwell-console-"));
  readonly tokenFile = path.join(this.folder, "token");
  base = "";
  token = "";
  api!: Client<typeof Orchestrator>;
  browser!: Browser;
  context!: BrowserContext;
  private ports = { grpc: 0, console: 0 };
  private server: ChildProcess | undefined;
  private readonly workers: ChildProcess[] = [];

  static async start(workers = 1): Promise<World> {
    const world = new World();
    mkdirSync(SHOTS, { recursive: true });
    world.ports = { grpc: await freePort(), console: await freePort() };
    world.base = `http://127.0.0.1:${world.ports.console}`;
    await world.serve();
    world.token = readFileSync(world.tokenFile, "utf8").trim();
    const transport = createConnectTransport({
      baseUrl: world.base,
      useBinaryFormat: true,
      interceptors: [
        (next) => (request) => {
          request.header.set("Authorization", `Bearer ${world.token}`);
          return next(request);
        },
      ],
    });
    world.api = createClient(Orchestrator, transport);
    for (let count = 0; count < workers; count++) world.work();
    world.browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
    world.context = await world.browser.newContext({ viewport: { width: 1280, height: 860 } });
    return world;
  }

  /** Starts the server, again on the same ports and store. */
  async serve(): Promise<void> {
    const args = ["serve", "--store", `sqlite:///${this.folder}/s.db`, "--token-file", this.tokenFile];
    const ports = ["--port", String(this.ports.grpc), "--console", "--console-port", String(this.ports.console)];
    this.server = this.spawn([...args, ...ports]);
    await until("the console answers", () => fetch(this.base).then((one) => one.ok, () => false));
  }

  async killServer(): Promise<void> {
    const gone = new Promise((resolve) => this.server!.once("exit", resolve));
    this.server!.kill("SIGKILL");
    await gone;
  }

  work(): ChildProcess {
    const worker = this.spawn(["worker", "agent:agent", "--queue", QUEUE]);
    this.workers.push(worker);
    return worker;
  }

  async killWorkers(): Promise<void> {
    for (const worker of this.workers.splice(0)) {
      const gone = new Promise((resolve) => worker.once("exit", resolve));
      worker.kill("SIGKILL");
      await gone;
    }
  }

  /** Runs `stepwell console --no-open`, and returns the link that it prints. */
  async link(...args: string[]): Promise<string> {
    const command = this.spawn(["console", "--no-open", ...args], "pipe");
    this.workers.push(command);
    let text = "";
    command.stdout!.on("data", (chunk: Buffer) => {
      text += chunk.toString();
    });
    return await until("the command prints a link", async () => /once: (\S+)/.exec(text)?.[1]);
  }

  private spawn(args: string[], stdout: "pipe" | "ignore" = "ignore"): ChildProcess {
    const child = spawn(path.join(BIN, "stepwell"), args, {
      cwd: path.join(CONSOLE, "tests/browser"),
      env: {
        ...process.env,
        STEPWELL_TARGET: `127.0.0.1:${this.ports.grpc}`,
        STEPWELL_TOKEN_FILE: this.tokenFile,
        STEPWELL_AUTH__TOKENS: JSON.stringify([
          { name: "reader", token_sha256: sha256(READER), tenant: "default", scopes: ["run:read"] },
          { name: "stranger", token_sha256: sha256(STRANGER), tenant: "other", scopes: ["run:read", "run:write"] },
        ]),
        PYTHONDONTWRITEBYTECODE: "1",
      },
      stdio: ["ignore", process.env["SHOW"] && stdout !== "pipe" ? "inherit" : stdout, process.env["SHOW"] ? "inherit" : "ignore"],
    });
    return child;
  }

  async stop(): Promise<void> {
    await this.browser?.close();
    for (const child of [...this.workers, this.server]) child?.kill("SIGKILL");
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Starts a run, by the agent's plan or by one of the test's own. */
  async start(goal: string, plan?: object[], fields: object = {}): Promise<string> {
    const { run } = await this.api.startRun({
      goal,
      pipelineId: QUEUE,
      queue: QUEUE,
      ...(plan ? { plan: { tasks: planOf(JSON.stringify(plan)) } } : {}),
      ...fields,
    });
    return run!.spec!.runId;
  }

  /** Opens a page that is logged in. Any error in it fails the test, by `page.errors`. */
  async open(to: string, context = this.context): Promise<Watched> {
    const page = (await context.newPage()) as Watched;
    page.errors = [];
    page.on("pageerror", (error) => page.errors.push(error.message));
    page.on("console", (message) => {
      // What the server refuses is shown by the page, and what is away by its banner.
      const expected = /Failed to load resource/.test(message.text());
      if (message.type() === "error" && !expected) page.errors.push(message.text());
    });
    await page.goto(this.base + to);
    if (await page.locator("input[type=password]").isVisible()) await this.logIn(page);
    await page.waitForSelector("header.top");
    return page;
  }

  async logIn(page: Page, token = this.token): Promise<void> {
    await page.fill("input[type=password]", token);
    await page.click("button[type=submit]");
    // Going on to another address at once would end the request.
    await page.waitForSelector("header.top");
  }

  /** Takes a picture of a page in light and one in dark, into a folder that stays after the tests. */
  async shot(page: Page, name: string): Promise<string[]> {
    const paths: string[] = [];
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      paths.push(path.join(SHOTS, `${name}-${colorScheme}.png`));
      await page.screenshot({ path: paths.at(-1)! });
    }
    await page.emulateMedia({ colorScheme: null });
    return paths;
  }
}

export interface Watched extends Page {
  errors: string[];
}
