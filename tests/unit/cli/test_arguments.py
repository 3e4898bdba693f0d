"""Arguments of the command line: budgets, spans, extras; a server's event loop and interpreter."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import EnumType

import pytest

from stepwell.cli import app, arguments
from stepwell.cli.exits import CliError, Exit
from stepwell.cli.process.serving import find_enum_members_directly
from stepwell.cli.process.serving import loop_factory as serving_loop
from stepwell.core.records.states import TaskStatus
from stepwell_client import Budget


def test_a_budget_is_given_part_by_part() -> None:
    parts = ["cost=2.50", "tokens-in=1000", "tokens-out=20", "tasks=3", "iterations=2", "wall=30m"]
    assert arguments.budget(parts) == Budget(
        input_tokens=1_000,
        output_tokens=20,
        cost_micros=2_500_000,
        tasks=3,
        iterations=2,
        wall=1_800.0,
    )
    assert arguments.budget([]) is None


@pytest.mark.parametrize("part", ["cost", "cost=much", "tokens=5", "tasks=1.5", "=", ""])
def test_a_part_that_is_none_says_which_there_are(part: str) -> None:
    with pytest.raises(CliError, match="tokens-in"):
        arguments.budget([part])


def test_a_span_that_is_none_says_how_it_is_written() -> None:
    with pytest.raises(CliError, match="ms, s, m, h or d"):
        arguments.budget(["wall=soon"])


@pytest.fixture
def enum_hook() -> Iterator[None]:
    """The hook of Python 3.11, which a server of this process may have removed; then it is as before."""
    before = vars(EnumType).get("__getattr__")

    def hook(_: object, name: str) -> object:
        raise AttributeError(name)

    setattr(EnumType, "__getattr__", hook)  # noqa: B010 - type checkers know of no such attribute
    yield
    find_enum_members_directly()
    if before is not None:
        setattr(EnumType, "__getattr__", before)  # noqa: B010 - see above


@pytest.mark.usefixtures("enum_hook")
def test_server_finds_members_of_enums_without_a_hook() -> None:
    for _ in range(2):
        find_enum_members_directly()
        assert not hasattr(EnumType, "__getattr__")
    assert TaskStatus.READY is TaskStatus("READY")
    assert not hasattr(TaskStatus, "UNKNOWN")


def test_server_runs_on_uvloop_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    uvloop = pytest.importorskip("uvloop")
    assert serving_loop() is uvloop.new_event_loop
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert serving_loop() is None


def test_mcp_without_its_extra_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    assert app.run(["mcp"]) == Exit.USAGE
    said = capsys.readouterr().err
    assert said.startswith("error: `stepwell mcp` needs a package that is not installed")
    assert said.endswith("pip install 'stepwell[mcp]'\n")
