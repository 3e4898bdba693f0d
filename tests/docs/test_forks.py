"""Every snippet of docs/forks.md runs, in its order, and says what the page says."""

from __future__ import annotations

import asyncio
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stepwell.rpc.server import Server
from tests.docs.pages import TOP, blocks, compiled
from tests.docs.shell import stepwell_commands

PAGE = TOP / "docs" / "forks.md"
WAIT_S = 60.0


@pytest.mark.timeout(110)
async def test_every_snippet_of_the_page_runs(
    server: Server, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    page = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", page)
    found = blocks(PAGE, "python")
    assert len(found) > 5
    for block in found:
        await asyncio.to_thread(exec, compiled(PAGE, block), vars(page))
        said = capsys.readouterr().out
        for shown in re.findall(r"print\(.*\)  # (.*)", block.text):
            assert shown in said

    (commands,) = blocks(PAGE, "sh")
    names = {"3f2a9c1e": vars(page)["run_id"], "9b07d1aa": vars(page)["fork_id"]}
    for command in stepwell_commands(commands.text):
        words = [names.get(word, word) for word in shlex.split(command)]
        done = await asyncio.to_thread(_run, words)
        assert done.returncode == 0, (command, done.stderr)


def _run(words: list[str]) -> subprocess.CompletedProcess[str]:
    words[0] = str(Path(sys.executable).parent / words[0])
    return subprocess.run(words, capture_output=True, text=True, timeout=WAIT_S, check=False)
