"""`stepwell logs` and `stepwell messages` against a real server and a real worker."""

from __future__ import annotations

import re

import pytest

from tests.service.cli.world import Row, Terminal, start


@pytest.mark.parametrize(
    ("kind", "arguments", "said"),
    [
        (
            "talk",
            ("--follow",),
            ["one#1  begins", "one#1  WARNING: odd \N{REPLACEMENT CHARACTER}[31mred"],
        ),
        ("break", ("--follow", "--task", "one"), ["one#1  half an answer", "one#1  breaks"]),
    ],
    ids=["lines", "pieces go on in their line"],
)
def test_a_log_is_followed_to_the_end_of_its_run(
    terminal: Terminal, kind: str, arguments: tuple[str, ...], said: list[str]
) -> None:
    run = start(terminal, {"id": "one", "type": kind}, queue="default")
    answer = terminal("logs", run, *arguments)
    assert answer.code == 0, answer.err
    assert [line.split("  ", 1)[1] for line in answer.out.splitlines()] == said
    assert re.match(r"\d\d:\d\d:\d\d  ", answer.out)


def test_log_and_conversation_are_printed_as_text_and_json(terminal: Terminal) -> None:
    run = start(terminal, {"id": "one", "type": "talk"}, queue="default")
    answer = terminal("logs", run, "-f", "--json")
    assert answer.json_lines[0]["entry"]["text"] == "begins"
    assert {one["entry"]["kind"] for one in answer.json_lines} == {"LOG_KIND_LINE"}
    first, second = "user 1 (one#1, session s-1)\nhello\nthere", "assistant 2 (one#1, session s-1)"
    terminal.plays(
        run,
        Row("messages {run} one", 0, f"{first}\n\n{second}\nhi\n\n"),
        Row("messages {run} --json", 0, '"number": 1'),
        Row("logs {run} --task nope", 2, err="run {short} has no task 'nope'"),
        Row("messages {run} nope", 2, err="run {short} has no task 'nope'"),
        Row("logs 00000000-0000-4000-8000-00000000dead", 2, err="no run"),
    )


def test_a_log_of_nothing_says_how_to_write_one(terminal: Terminal) -> None:
    answer = terminal("logs", start(terminal, {"id": "one"}))
    assert (answer.code, answer.out) == (0, "")
    assert "ctx.log" in answer.err
