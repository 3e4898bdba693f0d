"""Every snippet of the two pages runs, in its order, against a real server; their commands are commands."""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stepwell.cli.app import COMMANDS
from stepwell.rpc.server import Server
from tests.docs.pages import TOP, blocks, compiled

PAGES = [TOP / "docs" / "logs.md", TOP / "docs" / "sessions.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
async def test_every_snippet_of_the_page_runs(page: Path, server: Server, monkeypatch: Any) -> None:
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    found = blocks(page, "python")
    assert len(found) == 2
    for block in found:
        await asyncio.to_thread(exec, compiled(page, block), vars(module))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_the_page_are_commands(page: Path) -> None:
    found = [line for block in blocks(page, "sh") for line in block.text.splitlines()]
    assert found
    for line in found:
        program, command, *_ = shlex.split(line)
        assert program == "stepwell"
        assert command in COMMANDS
