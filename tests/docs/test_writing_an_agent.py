"""Every snippet of the page runs, in its order, against a real server."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from types import ModuleType
from typing import Any

from stepwell.rpc.server import Server
from stepwell_client import Agent, Worker
from tests.docs.pages import TOP, Block, blocks, compiled

PAGE = TOP / "docs" / "writing-an-agent.md"


def _needs_a_worker(block: Block) -> bool:
    """Return whether the snippet starts runs and brings no worker of its own."""
    return "client.start(" in block.text and "Worker(" not in block.text


async def test_every_snippet_of_the_page_runs(server: Server, monkeypatch: Any) -> None:
    page = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", page)
    found = blocks(PAGE, "python")
    assert len(found) > 10
    for block in found:
        async with AsyncExitStack() as stack:
            agent = vars(page).get("agent")
            if _needs_a_worker(block):
                assert isinstance(agent, Agent)
                await stack.enter_async_context(Worker(agent, worker_id=agent.name))
            await asyncio.to_thread(exec, compiled(PAGE, block), vars(page))
