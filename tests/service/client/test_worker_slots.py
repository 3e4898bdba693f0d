"""Ids of workers that are given none, as a server hears them."""

from __future__ import annotations

import logging
import os
import re
import socket
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from stepwell_client import Agent, Client
from stepwell_client.v1 import worker_pb2
from tests.service.client.fakes import FakeServer, serving, welcomed

HOST = socket.gethostname()
HOLDER = """
import fcntl, sys
with open(sys.argv[1], "w") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


async def test_workers_side_by_side_take_slots_and_a_freed_one_is_taken_again(
    server: FakeServer, client: Client, agent: Agent
) -> None:
    async with AsyncExitStack() as stack:
        ids = list[str]()
        for _ in range(3):
            second = await stack.enter_async_context(AsyncExitStack())
            await second.enter_async_context(serving(agent, client))
            ids.append((await welcomed(server)).hello.worker_id)
            if len(ids) == 2:
                await second.aclose()

    assert ids == [f"tester@{HOST}", f"tester@{HOST}-2", f"tester@{HOST}-2"]


async def test_the_slot_of_a_killed_process_is_free_at_once(
    server: FakeServer, client: Client, agent: Agent
) -> None:
    folder = Path(os.environ["XDG_STATE_HOME"]) / "stepwell" / "workers"
    folder.mkdir(parents=True, exist_ok=True)
    holder = subprocess.Popen(  # noqa: ASYNC220 - it has nothing to wait for
        [sys.executable, "-c", HOLDER, str(folder / f"tester@{HOST}.lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        async with serving(agent, client):
            second = (await welcomed(server)).hello.worker_id
        holder.kill()
    async with serving(agent, client):
        after = (await welcomed(server)).hello.worker_id

    assert (second, after) == (f"tester@{HOST}-2", f"tester@{HOST}")


async def test_a_state_folder_that_a_worker_makes_is_private(
    server: FakeServer,
    client: Client,
    agent: Agent,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    async with serving(agent, client):
        await welcomed(server)

    assert (tmp_path / "state" / "stepwell").stat().st_mode & 0o777 == 0o700


async def test_a_worker_whose_slot_another_host_has_goes_on_in_the_next(
    server: FakeServer, client: Client, agent: Agent
) -> None:
    async with serving(agent, client):
        stream = await welcomed(server)
        # Such as from a container of the same host name, which has locks of its own.
        await stream.send(end=worker_pb2.WorkEnd(reason=worker_pb2.WORK_END_REASON_REPLACED))
        assert (await welcomed(server)).hello.worker_id == f"tester@{HOST}-2"


async def test_without_a_folder_for_locks_ids_differ_and_a_line_says_why(
    server: FakeServer,
    client: Client,
    agent: Agent,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    async with serving(agent, client), serving(agent, client):
        ids = {(await welcomed(server)).hello.worker_id for _ in range(2)}

    assert len(ids) == 2
    assert all(re.fullmatch(rf"tester@{HOST}-[0-9a-f]{{8}}", one) for one in ids)
    warnings = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert len([one for one in warnings if "worker_id" in one.getMessage()]) == 2


@pytest.mark.parametrize("name", ["my agent!", "@", "x" * 300])
async def test_the_first_slots_id_is_a_name_that_the_protocol_takes(
    server: FakeServer, client: Client, name: str
) -> None:
    agent = Agent(name)
    agent.task(lambda ctx: None)
    async with serving(agent, client):
        made = (await welcomed(server)).hello.worker_id

    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,119}", made)
