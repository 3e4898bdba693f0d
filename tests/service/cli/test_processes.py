"""`serve` and `worker` as processes: what they print, and how they end."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

from tests.service.cli.world import WAIT_S, Terminal, end, read_until, start, working


def test_SIGTERM_drains_the_server_and_it_exits_with_0(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    server = terminal.spawn("serve", "--port", "0", "--store", f"sqlite:///{tmp_path}/a.db")
    read_until(server.stdout, "listens on 127.0.0.1:")
    read_until(server.stdout, f"store    sqlite:///{tmp_path}/a.db")
    read_until(server.stdout, "durable  POWER: what is acknowledged survives a power cut")
    read_until(server.stdout, f"token    {tmp_path}/state/stepwell/token")
    answer = end(server)

    assert answer.code == 0
    assert "draining" in answer.err
    assert "stopped" in answer.out


def test_SIGINT_drains_a_server_on_a_socket_with_logs_in_json(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    terminal = Terminal(tmp_path)
    server = terminal.spawn(
        *("serve", "--socket", str(folder / "s"), "--metrics-port", "0"),
        *("--store", "memory://", "--log-format", "json"),
    )
    address = read_until(server.stdout, r"listens on (\S+)")[1]
    read_until(server.stdout, "durable  VOLATILE")
    read_until(server.stdout, r"metrics  http://127.0.0.1:\d+/metrics")
    ready, listed = (terminal(word, "--target", address) for word in ("health", "ls"))
    answer = end(server, signal.SIGINT)

    assert address == f"unix:{folder}/s"
    assert (ready.code, listed.code, answer.code) == (0, 0, 0)
    entries = [json.loads(line) for line in answer.err.splitlines() if line.startswith("{")]
    assert {"made a token, by which commands log in", "serving", "draining", "stopped"} <= {
        one["event"] for one in entries
    }


def test_places_that_can_not_be_written_are_one_line(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    tokens = json.dumps(
        [{"tenant": "default", "scopes": ["run:read"], "token_sha256": "0" * 64}],
    )
    # The kernel lets no user make a folder there, not even root.
    for variables in (
        {"STEPWELL_GRPC__SOCKET": "/sys/stepwell/socket"},
        {"STEPWELL_AUTH__TOKEN_FILE": "/sys/stepwell/token"},
        {"XDG_STATE_HOME": "/sys"},
        {"XDG_STATE_HOME": "/sys", "STEPWELL_AUTH__MINT": "false", "STEPWELL_AUTH__TOKENS": tokens},
    ):
        answer = terminal.apart("serve", "--port", "0", **variables)
        assert answer.code != 0
        said = answer.err.splitlines()[-1]
        assert re.fullmatch(r"error: (the folder )?/sys/stepwell can't be (made|written): .*", said)
        assert "Traceback" not in answer.err


def test_second_signal_quits_at_once(terminal: Terminal) -> None:
    with working(terminal, "--id", "w2", "--drain", "60", "--queue", "slow") as worker:
        run = start(terminal, {"id": "long", "type": "slow"}, queue="slow")
        following = terminal.spawn("watch", run)
        read_until(following.stdout, "task long +taken by")
        worker.send_signal(signal.SIGTERM)
        read_until(worker.stderr, "again quits at once")
        assert end(worker).code == 130
        end(following, signal.SIGINT)
    terminal("cancel", run)


def test_worker_drains_and_exits_with_0(terminal: Terminal) -> None:
    with working(terminal, "--id", "w1", "--queue", "one", "--queue", "two") as worker:
        answer = end(worker)

    assert answer.code == 0
    assert "draining" in answer.err


def test_worker_without_a_valid_token_exits_with_5(terminal: Terminal) -> None:
    (terminal.folder / "wrong").write_text("0123456789abcdef0123456789abcdef")
    answer = terminal.apart("worker", "cli_agent:agent", "--token-file", "wrong")

    assert answer.code == 5
    assert "wants a token" in answer.err


def test_terminal_shows_the_tree(terminal: Terminal) -> None:
    printed = in_a_terminal(terminal, "run", "--goal", "twice")

    assert "SUCCEEDED" in printed
    assert "iteration 2" in printed
    assert "✓" in printed
    assert "# Report" in printed


def test_Ctrl_C_leaves_the_state_of_the_run_on_the_screen(terminal: Terminal) -> None:
    run = start(terminal, {"id": "long", "type": "slow"})
    printed = in_a_terminal(terminal, "watch", run, interrupted_at="long", code=130)
    terminal("cancel", run)

    _, erased, last = printed.rpartition("\x1b[2K")
    assert erased
    assert "long" in last
    assert last.rstrip().endswith(f"the run goes on; follow it again: stepwell watch {run[:8]}")


def in_a_terminal(
    terminal: Terminal, *arguments: str, interrupted_at: str = "", code: int = 0
) -> str:
    """Run a command on a pseudo-terminal, with a Ctrl-C once it has written a word; returns all that it wrote there."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "stepwell", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=terminal.folder,
        env={**terminal.variables, "TERM": "xterm", "COLUMNS": "100", "PYTHONUTF8": "1"},
    )
    os.close(theirs)
    written = bytearray()
    try:
        while data := os.read(ours, 65_536):
            written += data
            if interrupted_at and interrupted_at.encode() in written:
                interrupted_at = ""
                process.send_signal(signal.SIGINT)
    except OSError:
        pass  # The other side is closed.
    os.close(ours)
    assert process.wait() == code, written
    return written.decode("utf-8", "replace")


def test_run_with_wait_waits_for_a_server_that_is_coming_up(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    terminal = Terminal(tmp_path, STEPWELL_TARGET=f"unix:{folder}/s")
    nobody = f"no server answers at unix:{folder}/s; start one with `stepwell serve`"
    impatient = terminal("run", "--detach", "--goal", "x")
    waiting = terminal.spawn("run", "--detach", "--wait", "--goal", "x")
    read_until(waiting.stderr, nobody)
    server = terminal.spawn("serve", "--socket", f"{folder}/s", "--store", "memory://")
    out, _ = waiting.communicate(timeout=WAIT_S)
    listed = terminal("ls", "--json")
    end(server)

    assert (impatient.code, nobody in impatient.err) == (5, True)
    assert (waiting.returncode, out.strip() in listed.out) == (0, True)


def test_output_that_finds_no_room_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        answer = subprocess.run(
            [sys.executable, "-m", "stepwell", "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=WAIT_S,
        )

    assert answer.returncode == 1
    assert answer.stderr == "error: the output can't be written: No space left on device\n"


def test_terminal_of_few_characters_shows_dashes_and_question_marks(
    terminal: Terminal,
) -> None:
    run = start(terminal, {"id": "one", "title": "naïve"})
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    shown = terminal.apart("show", run, **ascii_only)
    listed = terminal.apart("show", run, "--json", **ascii_only)

    assert (shown.code, listed.code) == (0, 0), shown.err + listed.err
    assert "na?ve" in shown.out
    assert " - 0 of 1 task" in shown.out
    assert "na\\u00efve" in listed.out


def test_server_on_a_taken_port_says_so_in_its_own_words_alone(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        answer = Terminal(tmp_path).apart("serve", "--port", str(port), "--store", "memory://")

    assert answer.code == 2
    assert f"error: 127.0.0.1:{port} can't be bound" in answer.err
    assert "add_port" not in answer.err
