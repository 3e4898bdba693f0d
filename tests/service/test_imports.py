"""A fresh interpreter imports and prints nothing that it was not asked for."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from ast import literal_eval
from pathlib import Path

import pytest

EMBEDDED = """
import asyncio, logging, sys
%s
from stepwell.embedded import Orchestrator, RunCancelled
from stepwell_client import Agent, OnFailure, Retry, Task

agent = Agent()

@agent.task("broken")
def broken(ctx):
    raise ValueError("broken")

@agent.task("cancels")
async def cancels(ctx):
    await orchestrator.cancel("enough")
    await asyncio.Event().wait()

plan = [
    Task("one", "broken", retry=Retry(max_attempts=1), on_failure=OnFailure.CONTINUE),
    Task("two", "cancels", depends_on=["one"]),
]
orchestrator = Orchestrator("", agent, plan=plan, store=sys.argv[1])
try:
    asyncio.run(orchestrator.run())
except RunCancelled:
    pass
"""


def fresh(program: str, *arguments: str) -> str:
    """Run a program in an interpreter of its own and return what it prints, errors first."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr + done.stdout


def test_opening_a_store_imports_no_other_driver() -> None:
    said = fresh(
        """
        import asyncio, sys
        from stepwell.runtime import SystemRuntime
        from stepwell.store.opener import open_store

        async def main():
            await (await open_store("memory://", runtime=SystemRuntime())).close()

        asyncio.run(main())
        strangers = {"sqlalchemy", "alembic", "asyncpg", "redis", "grpc"}
        ours = {name for name in sys.modules if name.startswith("stepwell_drivers.")}
        print(sorted(strangers & set(sys.modules)), "stepwell_drivers.memory" in ours)
        print(sorted(name for name in ours if name.count(".") == 1))
        """
    )
    first, second = said.splitlines()
    assert first == "[] True"
    assert not {"stepwell_drivers.sql", "stepwell_drivers.redis", "stepwell_drivers.remote"} & set(
        literal_eval(second)
    )


def test_client_works_without_pydantic() -> None:
    fresh(
        """
        import sys
        sys.modules["pydantic"] = None
        import stepwell_client, stepwell_client.execution
        assert stepwell_client.decode(stepwell_client.encode({"a": 1})) == {"a": 1}
        """
    )


@pytest.mark.parametrize("store", ["memory://", "sqlite:///runs.db"])
def test_embedded_run_prints_nothing_where_logging_is_not_set_up(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert fresh(EMBEDDED % "", store) == ""


def test_embedded_run_logs_where_the_program_has_set_up_logging() -> None:
    said = fresh(
        EMBEDDED % "logging.basicConfig(level=logging.DEBUG, format='%(name)s %(message)s')",
        "memory://",
    )
    assert "stepwell_client.execution execution task:one#1" in said
    assert (
        "stepwell.embedded.worker a step is not wanted any more execution_id='task:two#1'" in said
    )
