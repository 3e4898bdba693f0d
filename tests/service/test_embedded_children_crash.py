"""An embedded parent and its child go on in the next process after the process died."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio, os, sys
from stepwell.embedded import Orchestrator
from stepwell_client import Agent, ChildRun, Task

agent, dies_at = Agent("family"), sys.argv[1]

def note(what):
    with open("log", "a") as log:
        print(what, file=log)
    if what.split()[0] == dies_at:
        os._exit(9)

@agent.plan
def plan(ctx):
    return [Task("facts", "work")]

@agent.task("ask")
async def ask(ctx):
    child = await ctx.start_child("bees", plan=[Task("facts", "work")])
    note(f"started {child.run_id}")
    found = await child.result()
    note(f"ended {child.run_id}")
    return found["facts"]

@agent.task("work")
def work(ctx):
    note(f"{ctx.goal} {ctx.run_id}")
    return f"all about {ctx.goal}"

plan = [Task("a", "ask"), Task("b", run=ChildRun(goal="ants"), depends_on=["a"])]
run = Orchestrator("a page", agent, plan=plan, store="sqlite:///runs.db", run_id="first").run()
print(asyncio.run(run).value)
"""


def run(folder: Path, dies_at: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", PROGRAM, dies_at]
    return subprocess.run(
        program, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("dies_at", ["bees", "ended", "ants"])
def test_next_process_goes_on_with_the_children_of_one_that_died(
    dies_at: str, tmp_path: Path
) -> None:
    first = run(tmp_path, dies_at)
    assert (first.returncode, first.stdout) == (9, ""), first.stderr
    second = run(tmp_path, "")
    assert second.returncode == 0, second.stderr
    facts = {"a": "all about bees", "b": {"facts": "all about ants"}}
    assert second.stdout == f"{facts}\n"
    lines = (tmp_path / "log").read_text().splitlines()
    for goal in ("bees", "ants"):
        runs = [line for line in lines if line.startswith(f"{goal} ")]
        assert len(set(runs)) == 1
        assert len(runs) == (2 if dies_at == goal else 1)
    assert len({line for line in lines if line.startswith("started ")}) == 1
