"""Threads in the command line: runs are started in them, and they are listed and shown."""

from __future__ import annotations

from uuid import uuid4

from tests.service.cli.world import Row, Terminal


def start(terminal: Terminal, *arguments: str) -> str:
    """Start a run that nobody serves; return its id."""
    answer = terminal("run", "--detach", "--queue", "nobody", *arguments)
    assert answer.code == 0, answer.err
    return answer.out.strip()


def test_a_run_in_a_thread_waits_is_refused_or_replaces_another(terminal: Terminal) -> None:
    thread = f"t-{uuid4()}"
    first = start(terminal, "--thread", thread)
    second = start(terminal, "--thread", thread)
    terminal.plays(
        second,
        Row("show {run}", 0, "another run of its thread has to end"),
        Row(f"run -q nobody --thread {thread} --on-busy reject", 1, err=f"run {first} of thread"),
        Row(f"run -q nobody --thread {thread} --on-busy later", 2, err="enqueue"),
        Row(f"run -q nobody --thread {thread} --on-busy steer -d -g more", 0, first),
        Row(f"signals {first}", 0, "steer"),
    )
    third = start(terminal, "--thread", thread, "--on-busy", "interrupt")
    terminal.plays(third, Row(f"watch {first}", 3, "was cancelled"), Row("cancel {run}", 0))
