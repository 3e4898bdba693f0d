"""The snippets of each page run in their order and print what it says; its settings and commands are such."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
import tomllib
from contextlib import AsyncExitStack
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from stepwell.cli.app import COMMANDS
from stepwell.config import Settings
from stepwell.rpc.server import Server
from stepwell_client import Agent, Budget, Client, Task, Worker
from tests.docs.pages import TOP, Block, blocks, compiled
from tests.docs.shell import stepwell_commands
from tests.service.cli.world import Terminal

DOCS = TOP / "docs"


class Page(NamedTuple):
    """A page with Python in it."""

    name: str
    snippets: int
    says: tuple[str, ...] = ()
    """Lines that they print, besides those in the comments after their `print` calls."""
    works: bool = False
    """The page leaves it to the reader to have a worker of the agent run."""

    @property
    def path(self) -> Path:
        return DOCS / f"{self.name}.md"


BUDGETS = Page("budgets", 1, (blocks(DOCS / "budgets.md", "text")[0].text,))
CONTROL = Page("control", 1, ("['page a', 'page b']\n",))
FORKS = Page("forks", 7)
QUEUES = Page("queues", 1, ("a report about topic 0\n", "20\n"))
RATE_LIMITS = Page("how-to/rate-limits", 1)
RETENTION = Page("retention", 1, ("0 True\n",))
PAGES = (
    *(BUDGETS, CONTROL, FORKS, QUEUES, RATE_LIMITS, RETENTION),
    Page("effects", 4, ("{'charge': 'charged 4711, says task:charge#1'}",), works=True),
    Page("children", 5, works=True),
    Page("how-to/idempotent-effects", 1),
    Page("how-to/input-form", 2, (blocks(DOCS / "how-to/input-form.md", "json")[0].text,)),
    Page("how-to/large-results", 1),
    Page("how-to/stream-tokens", 1, ("Roses are red.\nRoses are red.\n",)),
    Page("how-to/timers", 1),
    Page("journal", 5),
    Page("logs", 2),
    Page("people", 6, works=True),
    Page("sessions", 2),
    Page("testing", 1),
    Page("threads", 8, works=True),
    Page("writing-an-agent", 16, works=True),
)


@pytest.fixture(params=PAGES, ids=lambda page: page.name)
def page(request: pytest.FixtureRequest) -> Page:
    return request.param


@pytest.fixture
def terminal(server: Server, tmp_path: Path) -> Terminal:
    """A command line that finds the server as a reader's does."""
    ours = {name: value for name, value in os.environ.items() if name.startswith("STEPWELL_")}
    return Terminal(tmp_path, **ours)


async def _run(page: Page, block: Block, module: ModuleType, stack: AsyncExitStack) -> None:
    """Run a snippet, beside a worker where the page leaves that to the reader."""
    if page.works and "Client()" in block.text and "Worker(" not in block.text:
        # The block may bring functions of its own: they are the agent's before the worker is.
        before, mark, after = block.text.partition("\n\n\nasync def ")
        if mark:
            first = compiled(page.path, block._replace(text=before))
            await asyncio.to_thread(exec, first, vars(module))
            line = block.line + before.count("\n") + 3
            block = block._replace(text=mark.lstrip() + after, line=line)
        agent = [value for value in vars(module).values() if isinstance(value, Agent)][-1]
        await stack.enter_async_context(Worker(agent, worker_id=agent.name))
    await asyncio.to_thread(exec, compiled(page.path, block), vars(module))


@pytest.mark.timeout(110)
async def test_snippets_run_in_their_order_and_print_what_the_page_says(
    page: Page,
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    found = blocks(page.path, "python")
    assert len(found) == page.snippets
    for block in found:
        async with AsyncExitStack() as stack:
            await _run(page, block, module, stack)
    said = capsys.readouterr().out
    text = page.path.read_text(encoding="utf-8")
    for shown in (*page.says, *re.findall(r"print\(.*\)  # (.*)", text)):
        assert shown in said
    if page is FORKS:
        names = {"3f2a9c1e": vars(module)["run_id"], "9b07d1aa": vars(module)["fork_id"]}
        for words in _commands(page.path):
            answer = await asyncio.to_thread(terminal, *(names.get(word, word) for word in words))
            assert answer.code == 0, (words, answer.err)


def _commands(path: Path) -> list[list[str]]:
    """Return the commands of a page, each without its program."""
    found = [*blocks(path, "sh"), *blocks(path, "")]
    return [shlex.split(line)[1:] for one in found for line in stepwell_commands(one.text)]


def test_the_commands_of_every_page_are_commands() -> None:
    counted = {path.stem: len(_commands(path)) for path in DOCS.rglob("*.md")}
    for path in DOCS.rglob("*.md"):
        for command, *_ in _commands(path):
            assert command in COMMANDS, path.name
    wanting = {"budgets", "control", "effects", "forks", "logs", "operating", "people", "retention"}
    assert {name for name, count in counted.items() if count} >= {*wanting, "sessions"}


@pytest.mark.parametrize("page", [BUDGETS, CONTROL, RETENTION], ids=lambda page: page.name)
async def test_the_commands_of_the_page_run(page: Page, terminal: Terminal) -> None:
    budget = Budget(output_tokens=1_000, cost_micros=1_000, wall=60.0)
    said = "no run ended so long ago\n" if page is RETENTION else ""
    async with Client() as client:
        for words in _commands(page.path):
            run = await client.start(plan=[Task("a"), Task("b")], budget=budget)
            if "retry" in words:
                await run.skip_task("a")
            named = {"RUN": run.id, "TASK": "a"}
            answer = await asyncio.to_thread(terminal, *(named.get(word, word) for word in words))
            assert (answer.code, answer.err) == (0, said), words


@pytest.mark.parametrize(
    "page", [BUDGETS, QUEUES, RATE_LIMITS, RETENTION], ids=lambda page: page.name
)
def test_the_settings_of_the_page_are_settings(page: Page) -> None:
    found = blocks(page.path, "toml")
    assert found
    for block in found:
        Settings.model_validate(tomllib.loads(block.text))


async def test_example_of_the_clients_readme_prints_what_it_says(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = TOP / "clients" / "python" / "README.md"
    agent, client = (compiled(readme, block) for block in blocks(readme, "python")[:2])
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    exec(agent, vars(module))
    async with Worker(vars(module)["agent"]):
        await asyncio.to_thread(exec, client, {})
    assert f"It prints `{capsys.readouterr().out.strip()}`." in readme.read_text("utf-8")
