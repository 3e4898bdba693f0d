"""The snippets of docs/budgets.md and docs/control.md run, and print what the pages say."""

from __future__ import annotations

import asyncio
import os
import shlex
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stepwell.config import Settings
from stepwell.rpc.server import Server
from stepwell_client import Budget, Client, Task
from tests.docs.pages import TOP, blocks, compiled
from tests.service.cli.world import Terminal

BUDGETS = TOP / "docs" / "budgets.md"
CONTROL = TOP / "docs" / "control.md"


async def _printed(page: Path, capsys: Any) -> str:
    (block,) = blocks(page, "python")
    await asyncio.to_thread(exec, compiled(page, block), vars(ModuleType("page")))
    return capsys.readouterr().out


async def test_the_python_of_the_page_on_budgets_prints_what_it_says(
    server: Server, capsys: Any
) -> None:
    (says,) = blocks(BUDGETS, "text")
    assert says.text in await _printed(BUDGETS, capsys)


async def test_the_python_of_the_page_on_control_prints_what_it_says(
    server: Server, capsys: Any
) -> None:
    assert "['page a', 'page b']\n" in await _printed(CONTROL, capsys)


def test_the_settings_of_the_page_are_settings() -> None:
    (block,) = blocks(BUDGETS, "toml")
    settings = Settings.model_validate(tomllib.loads(block.text))
    assert settings.budgets.tenants["research"].output_tokens == 20_000_000


@pytest.mark.parametrize("page", [BUDGETS, CONTROL], ids=["budgets", "control"])
async def test_the_commands_of_the_page_run(page: Path, server: Server, tmp_path: Path) -> None:
    ours = {name: value for name, value in os.environ.items() if name.startswith("STEPWELL_")}
    terminal = Terminal(tmp_path, **ours)
    budget = Budget(output_tokens=1_000, cost_micros=1_000, wall=60.0)
    (block,) = blocks(page, "sh")
    async with Client() as client:
        for line in block.text.splitlines():
            run = await client.start(plan=[Task("a"), Task("b")], budget=budget)
            if " retry " in line:
                await run.skip_task("a")
            named = {"RUN": run.id, "TASK": "a"}
            words = [named.get(word, word) for word in shlex.split(line)]
            answer = await asyncio.to_thread(terminal, *words[1:])
            assert (answer.code, answer.err) == (0, ""), line
