"""The example that drives a command-line agent: its worker is killed, its conversation goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from examples.cli_agent.agent import Notes
from examples.cli_agent.notetaker import note_on, paragraphs_of
from stepwell_client import ExecutionStatus, LogKind, Retry, RunStatus, Task
from tests.service.capabilities.conftest import TENANT, Served
from tests.service.capabilities.silence import end_leases
from tests.service.conftest import token
from tests.support.patience import until
from tests.unit.house.source import TOP

TEXT = "\n\n".join(
    f"Paragraph number {n} speaks of elephants, elephants and tea." for n in range(12)
)


@asynccontextmanager
async def working(served: Served) -> AsyncIterator[int]:
    """Run a worker of the example in a process of its own; yields its pid."""
    ours = {name: text for name, text in os.environ.items() if not name.startswith("STEPWELL_")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "stepwell", "worker", "examples.cli_agent.agent:agent"),
        cwd=TOP,
        env=ours
        | {"STEPWELL_TARGET": served.target, "STEPWELL_TOKEN": token("all"), "PACE": "0.1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process.pid
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def test_a_killed_workers_conversation_goes_on(served: Served, tmp_path: Path) -> None:
    text, home = tmp_path / "text.md", tmp_path / "home"
    text.write_text(TEXT)
    task = Task(
        "notes",
        "take-notes",
        input={"text": str(text), "home": str(home)},
        retry=Retry(initial_backoff=0.0),
    )
    run = await served.client.start("take notes", plan=[task])
    async with working(served) as pid:
        await progress(served, run.id)
        os.kill(pid, signal.SIGKILL)
    # Until the server has noticed, the killed worker would be given the next attempt, too.
    await until(lambda: not served.server.deps.executor.connected)
    await end_leases(served, run.id)
    (conversation,) = home.iterdir()
    async with working(served):
        assert (await run.wait(60)).status == RunStatus.SUCCEEDED
    found = Notes(**(await run.results()).tasks["notes"])
    first, second = [one async for one in served.client.run(run.id).executions(task_id="notes")]
    lines = run.logs(execution_id=second.id, kinds=[LogKind.LINE])
    said = [entry.text async for entry in lines]

    assert found.notes == [note_on(paragraph) for paragraph in paragraphs_of(TEXT)]
    assert found.resumed_at > 0
    assert [path.stem for path in home.iterdir()] == [found.session_id] == [conversation.stem]
    assert len(conversation.read_text().splitlines()) == len(found.notes)
    assert first.status == ExecutionStatus.LOST
    assert first.session is not None
    assert second.session is not None
    assert first.session.session_id == second.session.session_id == found.session_id
    assert said == [f"goes on with conversation {found.session_id}"]


async def progress(served: Served, run_id: str) -> None:
    """Wait until a heartbeat has brought the session and some progress to the store."""

    async def is_there() -> bool:
        loaded = await served.store.load(TENANT, run_id)
        assert loaded is not None
        return any(row.progress and row.session.session_id for row in loaded.executions)

    async with asyncio.timeout(60):
        while not await is_there():  # noqa: ASYNC110 - a process of its own; it rings no bell here
            await asyncio.sleep(0.02)
