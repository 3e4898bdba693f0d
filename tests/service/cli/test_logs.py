"""`stepwell logs` and `stepwell messages` against a real server and a real worker."""

from __future__ import annotations

import re

import pytest

from tests.service.cli.world import Terminal, start


def test_a_log_is_followed_to_the_end_of_its_run(terminal: Terminal) -> None:
    run = start(terminal, {"id": "one", "type": "talk"}, queue="default")
    answer = terminal("logs", run, "--follow")
    assert answer.code == 0, answer.err
    said = [line.split("  ", 1)[1] for line in answer.out.splitlines()]
    assert said == ["one#1  begins", "one#1  WARNING: odd \N{REPLACEMENT CHARACTER}[31mred"]
    assert re.match(r"\d\d:\d\d:\d\d  ", answer.out)


def test_pieces_go_on_in_their_line(terminal: Terminal) -> None:
    run = start(terminal, {"id": "one", "type": "break"}, queue="default")
    answer = terminal("logs", run, "--follow", "--task", "one")
    said = [line.split("  ", 1)[1] for line in answer.out.splitlines()]
    assert said == ["one#1  half an answer", "one#1  breaks"]


def test_a_log_in_json_is_lines_of_entries(terminal: Terminal) -> None:
    run = start(terminal, {"id": "one", "type": "talk"}, queue="default")
    answer = terminal("logs", run, "-f", "--json")
    assert answer.json_lines[0]["entry"]["text"] == "begins"
    assert {one["entry"]["kind"] for one in answer.json_lines} == {"LOG_KIND_LINE"}


def test_a_log_of_nothing_says_how_to_write_one(terminal: Terminal) -> None:
    answer = terminal("run", "--detach", "--queue", "nobody", "--goal", "x")
    answer = terminal("logs", answer.out.strip())
    assert (answer.code, answer.out) == (0, "")
    assert "ctx.log" in answer.err


def test_a_conversation_is_printed(terminal: Terminal) -> None:
    run = start(terminal, {"id": "one", "type": "talk"}, queue="default")
    terminal("watch", run)
    answer = terminal("messages", run, "one")
    assert answer.code == 0, answer.err
    assert answer.out == (
        "user 1 (one#1, session s-1)\nhello\nthere\n\nassistant 2 (one#1, session s-1)\nhi\n\n"
    )
    document = terminal("messages", run, "--json")
    assert '"number": "1"' in document.out


def test_a_log_of_no_run_says_what_to_do(terminal: Terminal) -> None:
    answer = terminal("logs", "00000000-0000-4000-8000-00000000dead")
    assert answer.code == 2
    assert "no run" in answer.err


@pytest.mark.parametrize("arguments", [("logs", "--task", "nope"), ("messages", "nope")])
def test_log_of_a_missing_task_names_it(terminal: Terminal, arguments: tuple[str, ...]) -> None:
    run = start(terminal, {"id": "one", "type": "talk"}, queue="default")
    command, *others = arguments
    answer = terminal(command, run, *others)

    assert answer.code == 2
    assert f"run {run[:8]} has no task 'nope'" in answer.err
