"""The advice after each kind of failure, pause and wait is followed, and the run then ends well."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest

from stepwell.cli.view import describe
from stepwell.rpc.server import Server
from stepwell_client import (
    Agent,
    Budget,
    Client,
    Effect,
    Finish,
    NeedsAnswer,
    NonRetryable,
    PlanContext,
    ReflectContext,
    Retry,
    RunHandle,
    RunStatus,
    SynthesizeContext,
    Task,
    TaskContext,
    Worker,
)
from stepwell_client.enums import BlockedKind, ExpiryAction, PauseReason, Phase
from stepwell_client.records import FailureRecord, Run
from tests.docs.pages import TOP
from tests.service.cli.world import Terminal

PAGE = (TOP / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("## What the last line advises")[2].partition("\n## ")[0]
WAIT_S = 60.0
RESUME = "stepwell resume RUN"


def agent_of(*, mended: bool) -> Agent:  # noqa: C901 - a function for each case
    """Return an agent that fails as its run's input says, unless it is mended."""
    agent, once = Agent("hints"), Retry(max_attempts=1)

    @agent.plan
    def plan(ctx: PlanContext, wanted: str) -> list[Task]:
        if wanted == "plan" and not mended:
            raise NonRetryable("no plan")
        if wanted == "cycle" and not mended:
            return [Task("a", wanted, depends_on=["nowhere"])]
        effect = Effect.AT_MOST_ONCE if wanted == "unknown" else Effect.IDEMPOTENT
        given = "text" if wanted == "given" else wanted
        kind = wanted if wanted in agent.types else "later"
        return [Task("a", kind, input=given, retry=once, effect=effect)]

    async def text(ctx: TaskContext, given: str) -> str:
        return "done"

    async def number(ctx: TaskContext, given: int) -> str:
        return "done"

    agent.task("given")(text if mended else number)

    @agent.task("raises")
    async def raises(ctx: TaskContext) -> str:
        if not mended:
            raise RuntimeError("broken")
        return "done"

    @agent.task("later")
    async def later(ctx: TaskContext) -> str:
        ctx.usage(input_tokens=10)
        return "done"

    @agent.task("large")
    async def large(ctx: TaskContext) -> str:
        return "done" if mended else "x" * 2**21

    @agent.task("mismatch")
    async def mismatch(ctx: TaskContext) -> str:
        await ctx.call("read", str.upper, "a", key="k")
        return await ctx.call("read", str.upper, "b", key="other" if mended else "k")

    @agent.task("asks")
    async def asks(ctx: TaskContext) -> str:
        if ctx.answered is None:
            raise NeedsAnswer("who?")
        return str(ctx.answer())

    @agent.task("expires")
    async def expires(ctx: TaskContext) -> str:
        if not mended:
            raise NeedsAnswer("who?", expires=1, on_expiry=ExpiryAction.FAIL)
        return "done"

    @agent.reflect
    def reflect(ctx: ReflectContext) -> Finish:
        if ctx.goal == "reflect" and not mended:
            raise NonRetryable("no reflection")
        return Finish()

    @agent.synthesize
    def synthesize(ctx: SynthesizeContext) -> str:
        if ctx.goal == "synthesize" and not mended:
            raise NonRetryable("no answer")
        return "done"

    return agent


class Case(NamedTuple):
    """A run that fails or stands still, the advice, and the words that are put into it."""

    wanted: object
    kind: str
    """The failure's kind, or the status of a run that stands still."""
    advice: str = RESUME
    filled: str = ""
    """The command that is called; empty: the advised one."""
    goal: str = ""
    budget: Budget | None = None


CASES = (
    Case("raises", "RuntimeError"),
    Case("plan", "NonRetryable"),
    Case("cycle", "PLAN_INVALID"),
    Case("large", "RESULT_TOO_LARGE"),
    Case("given", "INVALID_INPUT"),
    Case("mismatch", "JournalError"),
    Case("expires", "QUESTION_EXPIRED"),
    Case("later", "NonRetryable", goal="reflect"),
    Case("later", "NonRetryable", goal="synthesize"),
    Case(
        *(["no", "text"], "INVALID_INPUT", "stepwell fork RUN --replan --input JSON"),
        "stepwell fork RUN --replan --input '\"later\"' --detach",
    ),
    Case(
        *("later", "PAUSED", "stepwell budget RUN --tokens-in N"),
        "stepwell budget RUN --tokens-in 1000",
        budget=Budget(input_tokens=5),
    ),
    Case(
        *("asks", "WAITING", "stepwell questions RUN; then: stepwell answer RUN VALUE"),
        "stepwell answer RUN '\"done\"'",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind}-{case.wanted}{case.goal}")
async def test_the_advised_command_makes_the_run_end_well(
    case: Case, server: Server, tmp_path: Path
) -> None:
    ours = {k: v for k, v in os.environ.items() if k.startswith("STEPWELL_")}
    terminal = Terminal(tmp_path, **ours)

    async def stepwell(line: str) -> str:
        answer = await asyncio.to_thread(terminal, *shlex.split(line)[1:])
        assert "Traceback" not in answer.err
        return answer.out + answer.err

    async with Client() as client:
        run = await client.start(case.goal, input=case.wanted, budget=case.budget)
        async with Worker(agent_of(mended=False), client):
            stopped = await stand_still(case, run)
        assert case.kind in (stopped.status.name, getattr(stopped.failure, "kind", ""))
        advised = (await stepwell(f"stepwell show {run.id}")).splitlines()[-1]
        assert case.advice.replace("RUN", run.id[:8]) in advised

        line = case.filled or f"{case.advice} --detach"
        said = await stepwell(line.replace("RUN", run.id))

        forked = re.search(r"^[0-9a-f-]{36}$", said, re.MULTILINE)
        ended = client.run(forked[0]) if forked else run
        async with Worker(agent_of(mended=True), client):
            assert await ended.result() == "done"


async def stand_still(case: Case, run: RunHandle) -> Run:
    """Return the run once it has failed, or moves no more by itself."""
    async with asyncio.timeout(WAIT_S):
        while True:
            now = await run.get()
            if now.status in (RunStatus.FAILED, RunStatus.PAUSED) or (
                now.blocked_on == BlockedKind.QUESTION and case.kind == "WAITING"
            ):
                return now
            await asyncio.sleep(0.05)


STATES = (
    Run(
        status=RunStatus.FAILED,
        phase=Phase.PLANNING,
        failure=FailureRecord(kind="INVALID_INPUT"),
    ),
    Run(status=RunStatus.FAILED, phase=Phase.EXECUTING),
    Run(status=RunStatus.PAUSED, pause_reason=PauseReason.BUDGET_EXHAUSTED),
    Run(status=RunStatus.PAUSED, pause_reason=PauseReason.NO_PROGRESS),
    Run(status=RunStatus.WAITING, blocked_on=BlockedKind.QUESTION),
    Run(status=RunStatus.WAITING, blocked_on=BlockedKind.UNKNOWN_OUTCOME),
    Run(status=RunStatus.WAITING, blocked_on=BlockedKind.TIMER),
)


def test_the_table_has_the_advice_for_each_state() -> None:
    rows = [line for line in TABLE.splitlines() if line.startswith("| ")][2:]
    assert len(rows) == len(STATES)
    for row, run in zip(rows, STATES, strict=True):
        commands = re.findall(r"`(stepwell [^`]+)`", row)
        assert commands
        for command in commands:
            assert command in describe.advice(run, "RUN")
