"""The snippets of docs/effects.md run, in their order."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

from stepwell.cli import app
from stepwell.rpc.server import Server
from stepwell_client import Worker
from tests.docs.pages import TOP, blocks, compiled

PAGE = TOP / "docs" / "effects.md"


async def test_every_snippet_of_the_page_runs(
    server: Server, monkeypatch: Any, tmp_path: Path, capsys: Any
) -> None:
    page = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", page)
    found = blocks(PAGE, "python")
    assert len(found) == 4
    with contextlib.chdir(tmp_path):
        for block in found:
            async with AsyncExitStack() as stack:
                if "client.start(" in block.text:
                    await stack.enter_async_context(_worker_of(page, block.text))
                await asyncio.to_thread(exec, compiled(PAGE, block), vars(page))
    said = "{'charge': 'charged 4711, says task:charge#1'}"
    assert said in capsys.readouterr().out
    assert said in PAGE.read_text()


def _worker_of(page: ModuleType, text: str) -> Worker:
    """Return a worker of the agent that the snippet makes: its functions stand before its run."""
    before, _, _ = text.partition("async def fetch_it")
    exec(compile(before, PAGE.name, "exec", dont_inherit=True), vars(page))
    return Worker(vars(page)["fetcher"], worker_id="fetcher")


def test_the_commands_of_the_page_are_commands() -> None:
    (block,) = blocks(PAGE, "sh")
    for line in block.text.splitlines():
        assert line.split()[1] in app.COMMANDS
