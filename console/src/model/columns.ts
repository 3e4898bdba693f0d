// Columns of the list of runs that one can choose.
import type { Run } from "../gen/stepwell/v1/types_pb.ts";
import { cost, number, span } from "./text.ts";
import { visible } from "./strange.ts";
import { isEnded, took } from "./words.ts";

export const COLUMNS = ["pipeline", "queue", "labels", "tokens", "cost", "duration"] as const;
export type Column = (typeof COLUMNS)[number];

export function isColumns(value: unknown): value is Column[] {
  return Array.isArray(value) && value.every((one) => (COLUMNS as readonly unknown[]).includes(one));
}

/** What stands in a column of a run; empty: nothing. */
export function cellOf(run: Run, column: Column, now: number): string {
  const { spec, usage } = run;
  switch (column) {
    case "pipeline":
      return visible(spec!.pipelineId);
    case "queue":
      return visible(spec!.queue);
    case "labels":
      return visible(Object.entries(spec!.labels).map(([key, value]) => `${key}=${value}`).join(", "));
    case "tokens":
      return usage && (usage.inputTokens || usage.outputTokens) ? `${number(usage.inputTokens)} + ${number(usage.outputTokens)}` : "";
    case "cost":
      return usage?.costMicros ? cost(usage.costMicros) : "";
    case "duration":
      return run.startedTime || isEnded(run) ? span(took(run, now)) : "";
  }
}
