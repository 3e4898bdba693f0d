"""An agent that reads the texts of a folder with a language model, asks a person once, and writes a report.

It is one step with a loop of tools: the model says which tool comes next, and each request and each tool is a call
of the step's journal. So a crash costs the call that was under way, and a person's answer ends no work.

    stepwell serve
    stepwell worker examples.researcher.agent:agent --queue researcher
    stepwell run --pipeline researcher --goal 'How did people get water before there were taps?' --input '{}'
    stepwell answer RUN one
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from examples.researcher.ledger import Calls, Ledger
from examples.researcher.library import list_files, read_file, search_word, sentences
from examples.researcher.models import Answer, Schema, ScriptedModel, local_model
from examples.researcher.prompts import Work, conclusion, next_move, quote
from examples.researcher.report import add_report, count_reports, render
from stepwell_client import (
    Agent,
    Done,
    Effect,
    JournalEntry,
    NotDone,
    PlanContext,
    QuestionKind,
    Retry,
    Task,
    TaskContext,
)

TEXTS = Path(__file__).parent / "texts"
QUESTION = "How many sentences of each text shall be quoted?"
CHOICES = {"two": 2, "one": 1}
TURNS_MAX = 12

agent = Agent("researcher")


@dataclass(frozen=True)
class Request:
    """The input of a run. Paths are the worker's."""

    texts: str = str(TEXTS)
    """The folder that is read."""
    reports: str = "reports.md"
    """The file that the report is added to."""
    ledger: str = "researcher.jsonl"
    """The file that counts the calls; the demo compares it with the journal."""
    scripted: bool = False
    """A scripted model plays the part of the one on this machine."""
    pace_seconds: float = 0.0
    """The time that the scripted model takes for each answer."""


@agent.plan
def plan(ctx: PlanContext) -> list[Task]:
    # A worker that was killed is back soon.
    retry = Retry(max_attempts=5, initial_backoff=0.2)
    return [Task("research", "research", title=ctx.goal, retry=retry)]


@agent.task("research", strict=True)
async def research(ctx: TaskContext) -> str:
    request = ctx.run_input(Request)
    calls = Calls(ctx, Ledger(Path(request.ledger)))

    def answer(prompt: str, schema: Schema) -> Answer:
        model = ScriptedModel(request.pace_seconds) if request.scripted else local_model()
        found = model.answer(prompt, schema)
        ctx.usage(
            input_tokens=found.input_tokens, output_tokens=found.output_tokens, model=found.model
        )
        return found

    async def ask_model(prompt: str, schema: Schema) -> Answer:
        return await calls.make("model", answer, prompt, schema, as_=Answer)

    work = Work(ctx.goal, await calls.make("list_files", list_files, request.texts, as_=list[str]))
    many = ""
    for _turn in range(TURNS_MAX):
        if not work.unread:
            break
        match (await ask_model(*next_move(work))).data:
            case {"tool": "search_word", "word": str(word)}:
                found = await calls.make(
                    "search_word", search_word, request.texts, word, as_=list[str]
                )
                work.searched = True
                work.news = f"The search for {word} found: {' '.join(found) or 'nothing'}"
            case {"tool": "read_file", "file": str(name)}:
                text = await calls.make("read_file", read_file, request.texts, name, as_=str)
                many = many or await ctx.ask(
                    QUESTION, kind=QuestionKind.CHOICE, choices=list(CHOICES), as_=str
                )
                work.quotes[name] = []
                if offered := sentences(text):
                    said = await ask_model(*quote(ctx.goal, text, offered, CHOICES[many]))
                    work.quotes[name] = list(dict.fromkeys(said.data["quotes"]))
                work.news = f"You have just read {name}. {' '.join(work.quotes[name])}"
            case _:
                break
    ending = await ask_model(*conclusion(work.all_quotes)) if work.all_quotes else None
    return await publish(ctx, calls, request.reports, render(ctx.goal, work.quotes, ending))


async def publish(ctx: TaskContext, calls: Calls, reports: str, page: str) -> str:
    """Add the report to the others, at most once: an attempt that can't know looks whether it is there."""

    def write(page: str) -> str:
        return add_report(reports, ctx.call_key, page)

    def find_report(begun: JournalEntry) -> Done | NotDone:
        there = count_reports(reports, f"{ctx.idempotency_key}/{begun.key}")
        return Done(page) if there else NotDone("the report isn't there")

    return await calls.make(
        "write_report", write, page, as_=str, effect=Effect.AT_MOST_ONCE, reconcile=find_report
    )
