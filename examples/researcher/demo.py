"""The program of `make demo-agent`: an agent with a language model, and a SIGKILL for its worker and for the server.

    python -m examples.researcher.demo [--texts FOLDER] [--question TEXT] [--model local|scripted]

The worker is killed in the middle of its loop of tools, the server later, each while the model is at work. In the end
a ledger that the agent wrote is compared with the journal in the store: the exit code is 1 when a call was made again
that had been acknowledged, when an effect took place twice or not at all, or when the run did not succeed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.table import Table

from examples.demo.ending import show_report, show_ways_on, shown
from examples.demo.processes import DemoFailed
from examples.demo.proof import kills_table, new_table, read_history
from examples.demo.stage import Stage, main, state_folder
from examples.demo.text import plain, some
from examples.researcher.agent import CHOICES, TEXTS, Request
from examples.researcher.ledger import Ledger, Line, Mark, Tally, tallies, violations
from examples.researcher.library import list_files
from examples.researcher.models import NoModel, weights
from examples.researcher.prompts import TEXTS_MIN
from examples.researcher.report import count_reports
from stepwell_client import JournalEntry, NonRetryable, Question, Run, RunHandle, RunStatus
from stepwell_client.enums import JournalMark

GOAL = "How did people get water before there were taps?"
TASK = "research"
EFFECT = "write_report"
FIRST = next(iter(CHOICES))
WORKER_DIES_AFTER = 5
"""Model calls that were acknowledged before."""
SERVER_DIES_AFTER = 7
PERSON_SECONDS = 30.0
"""A person at the terminal has this time for an answer; then it is the first choice."""
LOOK_SECONDS = 0.05


class Demo(Stage):
    """One run of the demo."""

    def __init__(self, goal: str, request: Request, state: Path, console: Console) -> None:
        super().__init__(
            "researcher",
            "examples.researcher.agent:agent",
            concurrency=1,
            state=state,
            console=console,
        )
        self.goal = goal
        self.request = request
        self.ledger = Ledger(Path(request.ledger))
        self._printed = 0

    async def start_run(self) -> RunHandle:
        return await self.client.start(self.goal, input=self.request, pipeline=self.name)

    async def act(self) -> None:
        printing = asyncio.create_task(self._print_calls())
        try:
            await self._answer()
            if await self.until(lambda: self._is_thinking(WORKER_DIES_AFTER), LOOK_SECONDS):
                await self.kill_worker()
            if await self.until(lambda: self._is_thinking(SERVER_DIES_AFTER), LOOK_SECONDS):
                await self.kill_server()
            await self.until(lambda: False)
        finally:
            printing.cancel()
            with suppress(asyncio.CancelledError):
                await printing
            self._print_new_calls()

    def _is_thinking(self, after: int) -> bool:
        """Return whether so many model calls are recorded, and another one is under way."""
        lines = self.ledger.read()
        recorded = sum(line.mark == Mark.RECORDED and line.name == "model" for line in lines)
        return recorded >= after and lines[-1].mark == Mark.BEGAN and lines[-1].name == "model"

    # The person.

    async def _answer(self) -> None:
        """Wait for the question, and answer it: as the person at the terminal does, else with the first choice."""
        questions: list[Question] = []
        while not questions:
            if self.is_over:
                return
            self.worker.check()
            self.screen.print_if_quiet()
            await asyncio.sleep(LOOK_SECONDS)
            questions = [one async for one in self.client.run(self.run_id).questions()]
        [question] = questions
        self.screen.print(f"a person is asked: {question.prompt}", "bold")
        answer = await self._ask_here(question.prompt) or FIRST
        await self.client.run(self.run_id).answer(question.id, answer)
        self.screen.print(f"answered: {answer}", "bold")

    async def _ask_here(self, prompt: str) -> str:
        """Ask at the terminal. Empty: there is none, nobody answered in time, or not with one of the choices."""
        if not (self.console.is_terminal and sys.stdin.isatty()):
            return ""
        self.screen.stop()
        ways = " or ".join(CHOICES)
        self.console.print(f"{prompt} {ways}? [{FIRST}, in {PERSON_SECONDS:.0f} s] ", end="")
        line: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        loop = asyncio.get_running_loop()
        loop.add_reader(sys.stdin, lambda: line.done() or line.set_result(sys.stdin.readline()))
        try:
            async with asyncio.timeout(PERSON_SECONDS):
                said = (await line).strip()
        except TimeoutError:
            self.console.print()
            said = ""
        finally:
            loop.remove_reader(sys.stdin)
            self.screen.start()
        return said if said in CHOICES else ""

    # The calls, as they come.

    async def _print_calls(self) -> None:
        while True:
            self._print_new_calls()
            await asyncio.sleep(LOOK_SECONDS)

    def _print_new_calls(self) -> None:
        lines = self.ledger.read()
        for line in lines[self._printed :]:
            what = f"{line.name} {plain(line.text, 70)}".strip()
            if line.mark == Mark.RECORDED:
                tokens = f", {some(line.tokens, 'token')}" if line.tokens else ""
                self.screen.print(f"     recorded: {what}{tokens}")
            elif line.mark == Mark.FOUND:
                self.screen.print(f"     from the journal: {what}", "cyan")
        self._printed = len(lines)

    # The end.

    async def conclude(self) -> bool:
        put = self.console.print
        run = await self.client.run(self.run_id).get()
        history = await read_history(self.client, self.run_id)
        entries = [entry async for entry in self.client.run(self.run_id).journal()]
        ends = [entry for entry in entries if entry.mark == JournalMark.END]
        lines = self.ledger.read()
        counted = tallies(lines)
        effects = self._effects(lines)
        put()
        put(calls_table(counted, {EFFECT: effects}))
        put(kills_table(history, self.kills))
        self._show_tokens(counted)
        found = [*history.violations(), *self._broken(lines, ends, effects, run)]
        for violation in found:
            put(f"VIOLATED: {violation}", style="bold red")
        if not found:
            asked = sum(one.name == "ask" for one in ends)
            put(
                f"Checked {some(len(lines), 'line')} of the ledger against "
                f"{some(len(ends), 'recorded call')}: no call was made again that had been acknowledged, none "
                f"was lost, the report was written once, and a person was asked {some(asked, 'question')}.",
                style="green",
            )
        if run.status == RunStatus.SUCCEEDED:
            results = await self.client.run(self.run_id).result(dict[str, str])
            show_report(self.console, Path(self.request.reports), results[TASK])
        show_ways_on(self.console, self.store, self.run_id, journal_of=TASK)
        return not found

    def _effects(self, lines: Sequence[Line]) -> dict[str, int]:
        """Count how often each call with an effect has had it, by its key."""
        keys = {line.key for line in lines if line.name == EFFECT and line.key}
        return {key: count_reports(self.request.reports, key) for key in keys}

    def _show_tokens(self, counted: Mapping[str, Tally]) -> None:
        used, found = counted["model"].tokens_used, counted["model"].tokens_found
        self.console.print(
            f"The model was paid {some(used, 'token')}. Without the journal it would have been {used + found:,}: "
            f"answers of {some(found, 'token')} came from there.",
            style="bold",
        )

    def _broken(
        self,
        lines: Sequence[Line],
        ends: Sequence[JournalEntry],
        effects: Mapping[str, int],
        run: Run,
    ) -> list[str]:
        """Return what isn't as promised."""
        made = {one.key: one.execution_id for one in ends if one.name != "ask"}
        found = violations(lines, made)
        found += [
            f"{key} took effect {times} times" for key, times in effects.items() if times != 1
        ]
        usage = sum(one.usage.input_tokens + one.usage.output_tokens for one in ends)
        if usage != run.usage.input_tokens + run.usage.output_tokens:
            found.append(f"the journal has {usage} tokens, and the run's usage is {run.usage}")
        if run.status != RunStatus.SUCCEEDED:
            why = run.reason if run.failure is None else run.failure.message
            found.append(f"the run {run.status}: {plain(why)}")
        if len(self.kills) < 2:
            found.append("the run was over before worker and server had been killed")
        return found


def calls_table(counted: Mapping[str, Tally], effects: Mapping[str, Mapping[str, int]]) -> Table:
    """A row for the calls of each name. `effects` has how often those with one had it, by their keys."""
    table = new_table("The calls of the step")
    table.add_column("call")
    for head in (
        "different\ncalls",
        "times\nmade",
        "cut off by\na kill",
        "answered from\nthe journal",
        "tokens\npaid",
        "tokens not\npaid twice",
        "effects\nper call",
    ):
        table.add_column(head, justify="right")
    for name, tally in counted.items():
        had = effects.get(name)
        table.add_row(
            name,
            *map(str, (tally.calls, tally.made, tally.cut, tally.found)),
            *(f"{count:,}" if count else "–" for count in (tally.tokens_used, tally.tokens_found)),
            "–" if had is None else f"{sum(had.values()) / max(1, len(had)):g}",
        )
    return table


def prepared(options: argparse.Namespace, console: Console) -> Demo:
    """Print which model plays, and make the demo. Raises DemoFailed where there is too little to read."""
    texts = Path(options.texts or TEXTS).resolve()
    try:
        files = list_files(str(texts))
    except NonRetryable as error:
        raise DemoFailed(f"{error}; try: make demo-agent TEXTS=/some/folder") from None
    if len(files) < TEXTS_MIN:
        raise DemoFailed(
            f"{some(len(files), 'text')} in {texts}: the demo needs {TEXTS_MIN} or more"
        )
    scripted = options.model == "scripted"
    why = "as was asked for"
    if not scripted:
        try:
            path = weights()
            size = path.stat().st_size / 1e6
            console.print(
                f"Model: {path.stem}, {size:.0f} MB, in the worker's process on one core."
            )
        except NoModel as error:
            scripted, why = True, f"because {error}"
    if scripted:
        console.print(
            f"Model: a SCRIPTED one, {why}. It takes the first answer that is allowed.",
            soft_wrap=True,
        )
    state = state_folder(options.state)
    console.print(
        f"Reading {some(len(files), 'text')} of {plain(str(texts))}; state: {shown(state)}"
    )
    request = Request(
        texts=str(texts),
        reports=str(state / "reports.md"),
        ledger=str(state / "ledger.jsonl"),
        scripted=scripted,
        pace_seconds=options.pace,
    )
    return Demo(options.question or GOAL, request, state, console)


def demo(arguments: Sequence[str] | None = None) -> int:
    """Read the arguments, and play."""
    parser = argparse.ArgumentParser(
        prog="demo-agent", description="An agent with a language model that survives kill -9."
    )
    parser.add_argument("--texts", help="the folder of .txt and .md files that it reads")
    parser.add_argument("--question", help="what it is to find out")
    parser.add_argument(
        "--model",
        choices=("local", "scripted"),
        default="local",
        help="the one on this machine (the default; without it a scripted one), or a scripted one",
    )
    parser.add_argument("--state", type=Path, help="where to keep the store and the logs")
    parser.add_argument(
        "--pace", type=float, default=0.5, help="seconds that the scripted model takes (0.5)"
    )
    options = parser.parse_args(arguments)
    return main(lambda console: prepared(options, console))


if __name__ == "__main__":
    sys.exit(demo())
