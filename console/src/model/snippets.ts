// What the page shows, asked for by curl, by the command line and in Python.

export interface Snippets {
  curl: string;
  cli: string;
  python: string;
}

/** A word of a shell: nothing in it is the shell's. */
export function shellWord(text: string): string {
  return /^[A-Za-z0-9_./:=@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** A text as Python reads it: JSON's escapes are Python's, but for halves of surrogate pairs. */
export function pythonText(text: string): string {
  return JSON.stringify(text).replace(/[\u007f-\uffff]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`).replace(
    /\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})/g,
    (_, high: string, low: string) => {
      const code = String.fromCharCode(Number.parseInt(high, 16), Number.parseInt(low, 16)).codePointAt(0)!;
      return `\\U${code.toString(16).padStart(8, "0")}`;
    },
  );
}

function curl(base: string, method: string, request: object): string {
  return [
    `curl -s ${shellWord(`${base}/stepwell.v1.Orchestrator/${method}`)} \\`,
    `    -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' -d ${shellWord(JSON.stringify(request))}`,
  ].join("\n");
}

function python(lines: string[], imports: string[] = []): string {
  return [...imports, "from stepwell_client import SyncClient", "", "with SyncClient() as client:", ...lines.map((one) => `    ${one}`)].join("\n");
}

function pythonDict(labels: Record<string, string>): string {
  return `{${Object.entries(labels).map(([key, value]) => `${pythonText(key)}: ${pythonText(value)}`).join(", ")}}`;
}

/** One run. */
export function runSnippets(base: string, runId: string): Snippets {
  return {
    curl: curl(base, "GetRun", { runId }),
    cli: `stepwell show ${shellWord(runId)}`,
    python: python([`run = client.run(${pythonText(runId)}).get()`, "print(run.status)"]),
  };
}

export interface ListFilter {
  /** By the protocol's names without what they begin with: `FAILED`. */
  statuses: string[];
  pipelineId: string;
  labels: Record<string, string>;
}

/** A list of runs. */
export function listSnippets(base: string, filter: ListFilter): Snippets {
  const { statuses, pipelineId, labels } = filter;
  const hasLabels = Object.keys(labels).length > 0;
  const request = {
    ...(statuses.length ? { statuses: statuses.map((one) => `RUN_STATUS_${one}`) } : {}),
    ...(pipelineId ? { pipelineId } : {}),
    ...(hasLabels ? { labels } : {}),
  };
  const cli = [
    "stepwell ls",
    ...statuses.map((one) => `--status ${one.toLowerCase()}`),
    ...(pipelineId ? [`--pipeline ${shellWord(pipelineId)}`] : []),
    ...Object.entries(labels).map(([key, value]) => `--label ${shellWord(`${key}=${value}`)}`),
  ];
  const options = [
    ...(statuses.length ? [`statuses=[${statuses.map((one) => `RunStatus.${one}`).join(", ")}]`] : []),
    ...(pipelineId ? [`pipeline=${pythonText(pipelineId)}`] : []),
    ...(hasLabels ? [`labels=${pythonDict(labels)}`] : []),
  ];
  const imports = statuses.length ? ["from stepwell_client.enums import RunStatus"] : [];
  const lines = [`for run in client.runs(${options.join(", ")}):`, "    print(run.id, run.status)"];
  return { curl: curl(base, "ListRuns", request), cli: cli.join(" "), python: python(lines, imports) };
}
