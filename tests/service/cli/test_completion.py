"""Shell completion: commands, run ids and task ids, and nothing where no server answers."""

from __future__ import annotations

import socket

import pytest

from tests.service.cli.world import Answer, Terminal, start

BASH, ZSH, FISH = "bash", "zsh", "fish"


def complete(terminal: Terminal, line: str, shell: str = BASH, **variables: str) -> Answer:
    """Return what the program prints for a shell that completes the line's last word."""
    asked = {
        BASH: {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)},
        ZSH: {"_TYPER_COMPLETE_ARGS": line},
        FISH: {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }
    return terminal.apart(**asked[shell], **variables, _STEPWELL_COMPLETE=f"complete_{shell}")


def test_ids_of_runs_are_completed(terminal: Terminal) -> None:
    run = start(terminal, {"id": "one"})
    by_id = complete(terminal, f"stepwell show {run[:4]}")
    by_more = complete(terminal, f"stepwell watch {run[:12]}")

    assert run[:8] in by_id.out
    assert run in by_more.out
    assert by_id.err + by_more.err == ""


@pytest.mark.parametrize("shell", [BASH, ZSH, FISH])
def test_ids_of_tasks_are_completed_in_each_shell(terminal: Terminal, shell: str) -> None:
    run = start(terminal, {"id": "one", "title": "The first"}, {"id": "other"}, {"id": "two"})
    tasks = complete(terminal, f"stepwell retry {run} o", shell)

    assert "one" in tasks.out
    assert "other" in tasks.out
    assert "two" not in tasks.out
    assert ("The first" in tasks.out) == (shell != BASH)
    assert tasks.err == ""


def test_names_of_commands_are_completed(terminal: Terminal) -> None:
    assert complete(terminal, "stepwell wa").out.split() == ["watch"]


def test_line_names_the_server_before_or_after_the_command(terminal: Terminal) -> None:
    run = start(terminal, {"id": "one"})
    address = terminal.variables["STEPWELL_TARGET"]
    nobody = {"STEPWELL_TARGET": "127.0.0.1:1"}
    above = complete(terminal, f"stepwell --target {address} show {run[:4]}", **nobody)
    below = complete(terminal, f"stepwell show --target {address} {run[:4]}", **nobody)

    assert run[:8] in above.out
    assert run[:8] in below.out


def test_nothing_is_said_where_no_server_answers(terminal: Terminal) -> None:
    nobody = complete(terminal, "stepwell show 3f", STEPWELL_TARGET="127.0.0.1:1")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        silence = complete(terminal, "stepwell show 3f", STEPWELL_TARGET=f"127.0.0.1:{port}")
    unknown = complete(terminal, "stepwell retry nope o")

    assert [one.out.strip() + one.err for one in (nobody, silence, unknown)] == ["", "", ""]
