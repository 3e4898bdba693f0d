"""The snippets of the documents about frameworks and MCP run, and print what the page says."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stepwell.cli.app import COMMANDS
from tests.docs.pages import TOP, blocks, compiled
from tests.frameworks.conftest import Served

MCP = TOP / "docs" / "mcp.md"
SHOWN_URL = "http://127.0.0.1:8765/mcp"


@pytest.fixture
def environment(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test's own environment becomes that of a user of the service."""
    monkeypatch.setenv("STEPWELL_TARGET", served.terminal.variables["STEPWELL_TARGET"])
    monkeypatch.setenv("XDG_STATE_HOME", served.terminal.variables["XDG_STATE_HOME"])
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


async def test_snippets_about_mcp_print_what_the_page_says(
    environment: None, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    module = ModuleType("page")
    for block in blocks(MCP, "python"):
        here = block._replace(text=block.text.replace(SHOWN_URL, url))
        await asyncio.to_thread(exec, compiled(MCP, here), vars(module))
    said = capsys.readouterr().out
    shown = re.findall(r"print\(.*\)  # (.*)", MCP.read_text(encoding="utf-8"))
    assert len(shown) == 2
    for line in shown:
        assert line in said


def test_configuration_of_assistants_names_a_command_that_is_there() -> None:
    (block,) = blocks(MCP, "json")
    named: dict[str, Any] = json.loads(block.text)["mcpServers"]["stepwell"]
    assert named["command"] == "stepwell"
    assert named["args"][0] in COMMANDS
