"""SIGKILL of a process with an embedded run in it; another process finishes the run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

CRASHES = """
    import asyncio, os, sys
    from stepwell.embedded import Orchestrator
    from stepwell_client import Agent, Task, TaskContext

    url, calls, crash = sys.argv[1:]
    agent = Agent()

    def note(word: str) -> None:
        with open(calls, "a") as file:
            print(word, file=file, flush=True)

    @agent.plan
    def plan(ctx):
        note("plan")
        return [Task(f"t{n}", depends_on=[f"t{n - 1}"] if n else []) for n in range(6)]

    @agent.task
    async def work(ctx: TaskContext):
        note(ctx.task_id)
        if crash == "crash" and ctx.task_id == "t3":
            print("here", flush=True)
            await asyncio.sleep(60)
        return ctx.attempt

    async def main():
        if crash == "crash":
            orchestrator = Orchestrator("survive", agent, store=url, run_id="r1")
        else:
            orchestrator = await Orchestrator.resume("r1", agent, store=url)
        print((await orchestrator.run()).value)

    asyncio.run(main())
"""


def test_resume_after_kill_9_runs_only_what_was_not_done(tmp_path: Path) -> None:
    script, calls = tmp_path / "crashes.py", tmp_path / "calls"
    script.write_text(textwrap.dedent(CRASHES))
    command = [sys.executable, str(script), f"sqlite:///{tmp_path}/runs.db", str(calls)]

    with subprocess.Popen([*command, "crash"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        os.kill(process.pid, signal.SIGKILL)
    done = subprocess.run(
        [*command, "resume"], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.stdout == "{'t0': 1, 't1': 1, 't2': 1, 't3': 2, 't4': 1, 't5': 1}\n", done.stderr
    assert calls.read_text().split() == ["plan", "t0", "t1", "t2", "t3", "t3", "t4", "t5"]
