// How many questions wait for a person, for the head of each page. It is asked for now and then, because a page holds only
// one stream.
import { QuestionStatus } from "../gen/stepwell/v1/types_pb.ts";
import { Value } from "../ui/store.ts";
import { api } from "./client.ts";

export const QUESTIONS_MAX = 100;
const READ_MS = 5_000;

/** The number of open questions, up to QUESTIONS_MAX. */
export const openQuestions = new Value(0);
/** What runs ask, by their ids. */
export const prompts = new Value<ReadonlyMap<string, string>>(new Map());

async function read(): Promise<void> {
  if (document.visibilityState !== "visible") return;
  try {
    const { questions } = await api.listQuestions({ pageSize: QUESTIONS_MAX });
    const open = questions.filter((one) => one.question?.status === QuestionStatus.OPEN);
    openQuestions.set(open.length);
    const next = new Map(open.map((one) => [one.runId, one.question!.prompt]));
    const before = prompts.get();
    if (next.size !== before.size || [...next].some(([runId, prompt]) => before.get(runId) !== prompt)) prompts.set(next);
  } catch {
    // The next time will tell; the banner says that the server is away.
  }
}

/** Keeps the number until the returned function is called. */
export function countQuestions(): () => void {
  void read();
  const timer = setInterval(() => void read(), READ_MS);
  return () => clearInterval(timer);
}
