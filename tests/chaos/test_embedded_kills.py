"""The end of a process with an embedded run in it, at any place; another process finishes the run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest

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


ON_STORES = """
    import asyncio, json, os, sys
    from pathlib import Path
    from stepwell.embedded import Orchestrator, SQLiteStore
    from stepwell_client import Continue, Finish, Task

    kind, folder, place = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    ends = False

    def at(now):
        if ends and now == place:
            os._exit(9)

    class Calls:
        async def update_loop_state(self, run_id, phase, iteration, task_id):
            at(f"{phase} {iteration} {task_id}")
            await super().update_loop_state(run_id, phase, iteration, task_id)

        async def save_result(self, run_id, name, result):
            at(f"save {name}")
            await super().save_result(run_id, name, result)
            at(f"saved {name}")

    class Files:
        def read(self):
            path = folder / "state"
            return json.loads(path.read_text()) if path.exists() else {"run": None, "rows": {}, "results": {}}

        def write(self, **changed):
            (folder / "new").write_text(json.dumps(self.read() | changed))
            (folder / "new").replace(folder / "state")

        def create_run(self, run_id, goal, limit):
            self.write(run={"goal": goal, "max_iterations": limit, "phase": "PLANNING"})

        def get_run(self, run_id):
            return self.read()["run"]

        async def update_loop_state(self, run_id, phase, iteration, task_id):
            self.write(run=self.get_run(run_id) | {"phase": phase, "iteration": iteration})

        def save_tasks(self, run_id, rows):
            self.write(rows={row["id"]: row for row in rows})

        def update_task(self, run_id, task_id, status):
            rows = self.read()["rows"]
            self.write(rows=rows | {task_id: rows[task_id] | {"status": status}})

        def get_tasks(self, run_id, status=None):
            return list(self.read()["rows"].values())

        async def save_result(self, run_id, name, result):
            self.write(results=self.read()["results"] | {name: result})

        def get_all_results(self, run_id):
            return self.read()["results"]

    class OwnStore(Calls, Files):
        pass

    class OurStore(Calls, SQLiteStore):
        pass

    def ran(name):
        with open(folder / "ran", "a") as file:
            print(name, file=file, flush=True)
        at(name)

    def plan(ctx):
        ran("plan")
        return [Task("a", "work", input="a"), Task("b", "work", input="b")]

    def work(name):
        ran(name)
        return name.upper()

    def reflect(ctx):
        ran("reflect")
        seen = dict(ctx.results)
        return Finish(str(seen)) if ctx.iteration == 2 else Continue([Task("c", "work", input="c")])

    def synthesize(ctx):
        ran("synthesize")
        return [ctx.goal, dict(ctx.results)]

    registry = {"plan": plan, "work": work, "reflect": reflect, "synthesize": synthesize}

    async def life(resumes):
        store = OwnStore() if kind == "own" else OurStore(folder / "runs.db")
        if resumes:
            made = await Orchestrator.resume("r1", store, store, store, registry)
        else:
            made = Orchestrator("go", 5, registry, store, store, store, "r1")
        result = await made.run()
        results = store.get_all_results("r1")
        return result.value, result.run.reason, results if kind == "own" else await results

    first = os.fork()
    if not first:
        ends = True
        asyncio.run(life(False))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]) == 9
    value, reason, results = asyncio.run(life(True))
    assert results == {"a": "A", "b": "B", "c": "C", "__result__": value}, results
    assert (value, reason) == (["go", {"a": "A", "b": "B", "c": "C"}], "{'c': 'C'}"), (value, reason)
    once = (folder / "ran").read_text()
    assert asyncio.run(life(True))[0] == value
    assert (folder / "ran").read_text() == once
"""

AGAIN_OURS = {
    "plan": ["plan"],
    "EXECUTING 0 None": [],
    "EXECUTING 1 None": [],
    "c": ["c"],
    "save c": ["c"],
    "saved c": ["c"],
    "REFLECTING 1 None": [],
    "synthesize": ["synthesize"],
    "DONE 1 None": [],
}
"""The functions that run again after an end at each place."""
AGAIN_OWN = AGAIN_OURS | {
    "EXECUTING 0 None": ["plan"],
    "synthesize": ["reflect", "synthesize"],
    "DONE 1 None": ["reflect", "synthesize"],
}
"""A user's own stores don't know that a reflection has ended with the run."""


@pytest.mark.parametrize("kind", ["ours", "own"])
@pytest.mark.parametrize("place", AGAIN_OURS)
def test_a_run_on_stores_goes_on_from_any_place(kind: str, place: str, tmp_path: Path) -> None:
    script = tmp_path / "lives.py"
    script.write_text(textwrap.dedent(ON_STORES))

    done = subprocess.run(
        [sys.executable, str(script), kind, str(tmp_path), place],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    ran = Counter((tmp_path / "ran").read_text().split())
    again = (AGAIN_OURS if kind == "ours" else AGAIN_OWN)[place]
    assert ran == Counter([*("plan", "a", "b", "reflect", "c", "reflect", "synthesize"), *again])
