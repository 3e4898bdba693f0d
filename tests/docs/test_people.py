"""Every snippet of the page runs, in its order, against a real server; its commands are commands."""

from __future__ import annotations

import asyncio
import shlex
import sys
from contextlib import AsyncExitStack
from types import ModuleType
from typing import Any

from stepwell.cli.app import COMMANDS
from stepwell.rpc.server import Server
from stepwell_client import Agent, Worker
from tests.docs.pages import TOP, blocks, compiled

PAGE = TOP / "docs" / "people.md"


async def test_every_snippet_of_the_page_runs(server: Server, monkeypatch: Any) -> None:
    page = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", page)
    found = blocks(PAGE, "python")
    assert len(found) == 5
    for block in found:
        async with AsyncExitStack() as stack:
            agent = vars(page).get("agent")
            if isinstance(agent, Agent) and "Client()" in block.text:
                # The block brings functions of its own: they are the agent's before the worker is.
                before, _, after = block.text.partition("\n\n\nasync def ")
                await asyncio.to_thread(
                    exec, compiled(PAGE, block._replace(text=before)), vars(page)
                )
                await stack.enter_async_context(Worker(agent, worker_id=agent.name))
                lines = block.line + before.count("\n") + 3
                block = block._replace(text=f"async def {after}", line=lines)
            await asyncio.to_thread(exec, compiled(PAGE, block), vars(page))


def test_the_commands_of_the_page_are_commands() -> None:
    lines = [line for block in blocks(PAGE, "") for line in block.text.splitlines()]
    assert len(lines) == 4
    for line in lines:
        program, command, *_ = shlex.split(line)
        assert program == "stepwell"
        assert command in COMMANDS
