// What an agent did before it asked: the last events of the run, and what was said in the step's conversation.
import type { RunQuestion } from "../gen/stepwell/v1/orchestrator_pb.ts";
import { type Event, EventType, type Message, type Run } from "../gen/stepwell/v1/types_pb.ts";
import { ms } from "../model/text.ts";
import { api, pages } from "./client.ts";

const EVENTS_READ = 60n;
const EVENTS_SHOWN = 8;
const MESSAGES_SHOWN = 3;
const MESSAGES_READ = 1_000;
/** What says nothing of the agent's work. */
const LEFT_OUT: ReadonlySet<EventType> = new Set([EventType.RUN_BLOCKED, EventType.QUESTION_ASKED, EventType.STEP_SUSPENDED]);

export interface Before {
  run: Run;
  events: Event[];
  messages: Message[];
}

export async function readBefore({ runId, question }: RunQuestion): Promise<Before> {
  const run = (await api.getRun({ runId })).run!;
  const asked = ms(question!.createdTime);
  const events: Event[] = [];
  const once = new AbortController();
  const after = run.lastEvent > EVENTS_READ ? run.lastEvent - EVENTS_READ : 0n;
  try {
    for await (const { message } of api.watchRun({ runId, resumeToken: String(after) }, { signal: once.signal })) {
      if (message.case !== "events") break;
      events.push(...message.value.events);
      if (events.at(-1)!.number >= run.lastEvent) break;
    }
  } finally {
    once.abort();
  }
  const messages: Message[] = [];
  const { taskId } = question!;
  if (taskId) {
    for await (const page of pages((pageToken) => api.listMessages({ runId, taskId, pageSize: MESSAGES_READ, pageToken }))) {
      messages.push(...page.messages);
      if (messages.length > MESSAGES_SHOWN) messages.splice(0, messages.length - MESSAGES_SHOWN);
    }
  }
  const shown = events.filter((one) => ms(one.time) <= asked && !LEFT_OUT.has(one.type));
  return { run, events: shown.slice(-EVENTS_SHOWN), messages };
}
