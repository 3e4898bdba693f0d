"""Servers and workers, as processes: those of one test, to be killed, and one of each for all tests of MCP."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.chaos.world.processes import Place
from tests.service.cli.world import SESSION_S, Terminal, end, read_until, serving, working

# Else the SDK of the OpenAI agents sends what these do to OpenAI.
os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

READER = "r" * 64
SETTINGS = """
[[auth.tokens]]
name = "reader"
tenant = "default"
scopes = ["run:read"]
token_file = "reader.token"
"""


class Served(NamedTuple):
    """A service with a worker, and the token of its user. `READER` is a token that may only read."""

    terminal: Terminal
    token_file: Path

    @property
    def token(self) -> str:
        return self.token_file.read_text(encoding="utf-8").strip()


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    terminal = Terminal(tmp_path_factory.mktemp("mcp"))
    terminal.lives_s = SESSION_S
    reader = terminal.folder / "reader.token"
    reader.touch(mode=0o600)
    reader.write_text(READER)
    (terminal.folder / "stepwell.toml").write_text(SETTINGS)
    with serving(terminal) as address:
        terminal.variables["STEPWELL_TARGET"] = address
        with working(terminal, "--drain", "0"):
            yield Served(terminal, terminal.folder / "state" / "stepwell" / "token")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    try:
        yield place
    finally:
        place.close()


@contextmanager
def listening(terminal: Terminal, *arguments: str) -> Iterator[str]:
    """Run `stepwell mcp` for HTTP on a free port; yields its URL."""
    process = terminal.spawn("mcp", "--http", "127.0.0.1:0", *arguments)
    try:
        yield read_until(process.stdout, r"listens on (\S+)")[1]
    finally:
        answer = end(process)
        assert (answer.code, answer.out) == (0, "stopped\n"), answer


@pytest.fixture(scope="session")
def url(served: Served) -> Iterator[str]:
    # Its own user's token is out of its reach: what works, works by the caller's.
    elsewhere = Terminal(served.terminal.folder, **served.terminal.variables)
    elsewhere.lives_s = served.terminal.lives_s
    elsewhere.variables["XDG_STATE_HOME"] = "/nonexistent"
    with listening(elsewhere) as made:
        yield made
