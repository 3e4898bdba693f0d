"""The snippets of the documents about frameworks run, in their order."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import ModuleType

import pytest

from stepwell.rpc.server import Server
from tests.docs import conftest
from tests.docs.pages import TOP, blocks, compiled

server = conftest.server


# LangGraph's own prebuilt agent is on the page, because LangChain isn't among the frameworks here.
@pytest.mark.filterwarnings("ignore::langgraph.warnings.LangGraphDeprecatedSinceV10")
@pytest.mark.parametrize(("name", "snippets"), [("frameworks", 10)])
async def test_snippets_of_the_page_run_in_their_order(
    name: str, snippets: int, server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    path = TOP / "docs" / f"{name}.md"
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    found = blocks(path, "python")
    assert len(found) == snippets
    for block in found:
        await asyncio.to_thread(exec, compiled(path, block), vars(module))
