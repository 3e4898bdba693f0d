"""The snippets of docs/testing.md run, as a test of the reader's would."""

from __future__ import annotations

import asyncio
from types import ModuleType

from tests.docs.pages import TOP, blocks, compiled

PAGE = TOP / "docs" / "testing.md"


async def test_every_snippet_of_the_page_runs() -> None:
    found = blocks(PAGE, "python")
    assert found
    for block in found:
        await asyncio.to_thread(exec, compiled(PAGE, block), vars(ModuleType("page")))
