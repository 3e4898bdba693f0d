"""Each row of docs/from-the-documents.md has its place, a test that is collected, and commands that run."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from stepwell.rpc.server import Server
from stepwell_client import Client, Task
from tests.docs.pages import TOP
from tests.service.cli.world import Terminal

PAGE = TOP / "docs" / "from-the-documents.md"
SYSTEMS = 5


class Row(NamedTuple):
    """A promise: the files that keep it, and the tests and commands that show it."""

    promise: str
    links: list[str]
    tests: list[str]
    commands: list[str]


def rows(section: str) -> list[Row]:
    """Return the rows of a section's table."""
    found: list[Row] = []
    for line in section.splitlines():
        if not line.startswith("| ") or line.startswith(("| promise |", "| --- |")):
            continue
        promise, where, shown = (cell.strip() for cell in line.strip("|").split(" | "))
        spans = re.findall(r"`([^`]+)`", shown)
        found.append(
            Row(
                promise,
                re.findall(r"\]\(([^)]+)\)", where),
                [one for one in spans if one.startswith("tests/")],
                [one for one in spans if one.startswith("stepwell ")],
            )
        )
        assert len(spans) == len(found[-1].tests) + len(found[-1].commands), line
    return found


SECTIONS = [rows(one) for one in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]]
ROWS = [row for section in SECTIONS for row in section]


def test_each_document_has_promises_with_a_place_and_a_test() -> None:
    assert len(SECTIONS) == SYSTEMS
    assert all(SECTIONS)
    for row in ROWS:
        assert row.links, row.promise
        assert row.tests, row.promise
        for link in row.links:
            assert (PAGE.parent / link.partition("#")[0]).exists(), link


def test_each_rpc_that_is_named_is_one() -> None:
    protocol = (TOP / "proto/stepwell/v1/orchestrator.proto").read_text(encoding="utf-8")
    named = re.findall(r"\[(\w+)\]\(\.\./proto/stepwell/v1/orchestrator", PAGE.read_text("utf-8"))
    assert named
    for name in named:
        assert f"  rpc {name}(" in protocol


def test_the_tests_of_each_row_are_collected() -> None:
    wanted = sorted({test for row in ROWS for test in row.tests})
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*collect, *wanted], cwd=TOP, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
    for test in wanted:
        assert f"\n{test}" in f"\n{done.stdout}", test


async def test_the_commands_of_each_row_run(server: Server, tmp_path: Path) -> None:
    ours = {name: value for name, value in os.environ.items() if name.startswith("STEPWELL_")}
    terminal = Terminal(tmp_path, **ours)
    commands = [command for row in ROWS for command in row.commands]
    assert commands
    async with Client() as client:
        run = await client.start("show it", plan=[Task("a")])
        for command in commands:
            words = [run.id if word == "RUN" else word for word in shlex.split(command)[1:]]
            answer = await asyncio.to_thread(terminal, *words)
            assert answer.code == 0, (command, answer.err)
