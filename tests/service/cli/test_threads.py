"""Threads in the command line: runs are started in them, and they are listed and shown."""

from __future__ import annotations

import signal
from uuid import uuid4

from stepwell_client import SyncClient
from tests.service.cli.world import WAIT_S, Row, Terminal, end, read_until


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


def test_threads_are_listed_shown_and_deleted(terminal: Terminal) -> None:
    thread = f"t-{uuid4()}"
    run = start(terminal, "--thread", thread)
    start(terminal, "--thread", thread)
    token = terminal.folder / "state" / "stepwell" / "token"
    with SyncClient(terminal.variables["STEPWELL_TARGET"], token_file=token) as client:
        client.thread(thread).append("user", "one\nand \x1b[31mred")
        client.thread(thread).append("user", {"n": 2})
        client.thread(thread).set_state([1])
    terminal.plays(
        run,
        Row("threads", 0, thread),
        Row("threads --limit 1 --json", 0, '"waiting": 1'),
        Row(f"thread {thread}", 0, "run {short} works, 1 run after it; 2 messages"),
        Row(f"thread {thread}", 0, "state 1: [1]"),
        Row(f"thread {thread} --label user=ann", 0, "labels user=ann"),
        Row("threads --label user=ann", 0, thread),
        Row("threads --label user=bob", 0, err="no threads"),
        Row(f"thread {thread} --last 1", 0, '2 user: {"n": 2}'),
        Row(f"thread {thread} --json", 0, '"role": "user"'),
        Row(f"thread {thread} --fork {thread}-2 --at 1", 0, f"{thread}-2: idle; 1 message"),
        Row(f"thread {thread} --fork {thread}-2", 1, err="there is a thread"),
        Row(f"thread {thread} --at 1", 2, err="--fork"),
        Row(f"thread {thread} --fork x --delete", 2, err="exclude"),
        Row(f"thread {thread}-2 --delete", 0, "is deleted"),
        Row(f"thread {thread} --force", 2, err="--delete"),
        Row(f"thread {thread} --delete", 1, err="works"),
        Row(f"thread {thread} --delete --force", 0, "is deleted"),
        Row(f"thread {thread} --delete --json", 0, '"deleted": false'),
        Row(f"thread {thread}", 2, err="there is no thread"),
        Row("show {run}", 2),
    )


def test_thread_is_followed_until_it_is_deleted(terminal: Terminal) -> None:
    thread = f"t-{uuid4()}"
    token = terminal.folder / "state" / "stepwell" / "token"
    with SyncClient(terminal.variables["STEPWELL_TARGET"], token_file=token) as client:
        handle = client.thread(thread)
        handle.append("user", "earlier")
        handle.append("user", "before")
        for options, line in (((), "{0} user: "), (("--json",), '"number": {0}')):
            last = handle.get().messages
            following = terminal.spawn("thread", thread, "--follow", "--last", "1", *options)
            read_until(following.stdout, line.format(last))
            handle.append("user", "meanwhile")
            read_until(following.stdout, line.format(last + 1))
            if not options:
                end(following, signal.SIGINT)
        handle.delete()
        following.communicate(timeout=WAIT_S)
    assert following.returncode == 0
