"""A person's stop and mistake end an embedded program with one line, and say how to continue."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stepwell.core.records.errors import AlreadyExists
from stepwell.embedded import Orchestrator
from stepwell_client import Agent, Budget, Task, TaskContext

PROGRAM = """
import asyncio, sys, time
from stepwell.embedded import Orchestrator
from stepwell_client import Agent, Task

agent = Agent("slow")

@agent.plan
def plan(ctx, seconds: int):
    return [Task("a", "sleep", input=seconds)]

@agent.task("sleep")
def sleep(ctx, seconds: int):
    print("sleeping", flush=True)
    time.sleep(seconds)

stores = {"store": sys.argv[2], "run_id": "first"} if sys.argv[2] else {}
asyncio.run(Orchestrator("sleep", agent, input=int(sys.argv[1]), **stores).run())
"""


def started(folder: Path, seconds: int, store: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(seconds), store],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("store", ["sqlite:///runs.db", ""])
def test_ctrl_c_prints_one_line_with_the_way_on(store: str, tmp_path: Path) -> None:
    program = started(tmp_path, 1, store)
    assert program.stdout is not None
    assert program.stdout.readline() == "sleeping\n"
    program.send_signal(signal.SIGINT)
    _, said = program.communicate(timeout=60)

    assert program.returncode == -signal.SIGINT
    kept = (
        "stopped; run first is kept in sqlite:///runs.db; to continue it, start the same program"
        " again, or use Orchestrator.resume('first', …)\n"
    )
    assert said == kept if store else "was not kept: pass store=" in said
    assert said.count("\n") == 1
    if store:
        again = started(tmp_path, 1, store)
        assert again.communicate(timeout=60) == ("sleeping\n", "")
        assert again.returncode == 0


def test_another_input_prints_one_line_with_both(tmp_path: Path) -> None:
    for seconds in (0, 10):
        program = started(tmp_path, seconds, "sqlite:///runs.db")
        _, said = program.communicate(timeout=60)
    assert program.returncode == 1
    assert said == (
        "error: run 'first' was started with other arguments: input was 0 and is now 10; give this"
        " one another run_id, or continue the first by Orchestrator.resume('first', …)\n"
    )


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"input": "b" * 200}, 'input was "a" and is now "bbbb'),
        ({"goal": "mend"}, "goal was 'go' and is now 'mend'"),
        ({"labels": {"team": "x"}}, "labels was {} and is now {'team': 'x'}"),
        ({"max_parallel": 3}, "max_parallel was 1 and is now 3"),
        ({"budget": Budget(tasks=4)}, "budget was Budget("),
        ({"plan": [Task("other", "work")]}, "plan was (TaskSpec(task_id='a'"),
        ({"stages": ()}, "stages was"),
    ],
)
async def test_the_argument_that_differs_is_named(
    other: dict[str, object], said: str, tmp_path: Path
) -> None:
    agent = Agent()

    @agent.task("work")
    async def work(ctx: TaskContext) -> None: ...

    @agent.synthesize
    def answer(ctx: object) -> str:
        return "done"

    async def run(**changed: object) -> None:
        given: dict[str, object] = {
            "goal": "go",
            "input": "a",
            "plan": [Task("a", "work")],
            **changed,
        }
        url = f"sqlite:///{tmp_path}/runs.db"
        await Orchestrator(agent=agent, store=url, run_id="r1", **given).run()  # pyright: ignore[reportArgumentType] - values by name

    await run()
    with pytest.raises(AlreadyExists) as caught:
        await run(**other)
    assert said in caught.value.message
    assert caught.value.message.count(" was ") == 2  # "was started", and the one that differs
    assert len(caught.value.message) < 400
