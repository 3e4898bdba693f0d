"""The snippets of docs/queues.md and docs/retention.md run."""

from __future__ import annotations

import asyncio
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stepwell.config import Settings
from stepwell.rpc.server import Server
from tests.docs.pages import TOP, blocks, compiled
from tests.docs.shell import Shell, stepwell_commands

QUEUES = TOP / "docs" / "queues.md"
RETENTION = TOP / "docs" / "retention.md"


@pytest.mark.parametrize(
    ("page", "says"),
    [(QUEUES, ["a report about topic 0", "20"]), (RETENTION, ["0 True"])],
    ids=["queues", "retention"],
)
async def test_the_python_of_the_page_runs(
    page: Path, says: list[str], server: Server, capsys: Any
) -> None:
    (block,) = blocks(page, "python")
    await asyncio.to_thread(exec, compiled(page, block), vars(ModuleType("page")))
    said = capsys.readouterr().out.splitlines()
    assert [line for line in said if line in says] == says


@pytest.mark.parametrize("page", [QUEUES, RETENTION], ids=["queues", "retention"])
def test_the_settings_of_the_page_are_settings(page: Path) -> None:
    for block in blocks(page, "toml"):
        Settings.model_validate(tomllib.loads(block.text))


def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    with Shell(tmp_path) as shell:
        shell.serve("stepwell serve")
        for block in blocks(RETENTION, "sh"):
            for command in stepwell_commands(block.text):
                done = shell.run(command)
                assert (done.returncode, done.stderr) == (0, "no run ended so long ago\n")
