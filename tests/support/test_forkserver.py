"""What is born in the nursery is a process like any other, and nobody survives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.backends.child import until
from tests.support.backends.keeper import is_alive
from tests.support.forkserver import TOP, Asked, Life, nursery

SPEAKER = "tests.support.speaker"


def born(log: Path, *arguments: str, **environment: str) -> Life:
    asked = Asked(SPEAKER, arguments, {**os.environ, **environment})
    with log.open("ab") as out:
        return nursery().born(asked, out.fileno())


def test_it_has_arguments_an_environment_and_a_log_of_its_own(tmp_path: Path) -> None:
    one = born(tmp_path / "one", "first", SPEAKER_WORD="yes")
    other = born(tmp_path / "other", "second")

    assert (one.wait(20), other.wait(20)) == (0, 0)
    assert (tmp_path / "one").read_text() == "first yes __main__ warm\n"
    assert (tmp_path / "other").read_text() == "second None __main__ warm\n"


def test_nothing_of_others_is_open_in_it(tmp_path: Path) -> None:
    waiting = born(tmp_path / "waiting", "wait")
    life = born(tmp_path / "files", "files")

    assert life.wait(20) == 0
    assert (tmp_path / "files").read_text().split() == ["0", "1", "2"]
    waiting.signal(signal.SIGKILL)
    assert waiting.wait(20) == -signal.SIGKILL


@pytest.mark.parametrize(("argument", "code"), [("fail", 7), ("raise", 1)])
def test_its_exit_code_is_told(tmp_path: Path, argument: str, code: int) -> None:
    assert born(tmp_path / "log", argument).wait(20) == code


def test_a_signal_to_one_that_has_ended_reaches_nobody(tmp_path: Path) -> None:
    life = born(tmp_path / "log", "first")
    life.wait(20)

    life.signal(signal.SIGKILL)
    assert life.poll() == 0


def test_what_an_interpreter_reads_at_its_start_makes_it_a_fresh_one(tmp_path: Path) -> None:
    life = born(tmp_path / "log", "first", PYTHONPATH=os.pathsep.join(["/nowhere", str(TOP)]))

    assert life.wait(20) == 0
    assert (tmp_path / "log").read_text() == "first None __main__ fresh\n"


OWNER = """
import os, signal, sys
from tests.support.forkserver import Asked, nursery
life = nursery().born(Asked("tests.support.speaker", ["wait"], dict(os.environ)), 1)
print(life.pid, flush=True)
signal.pause()
"""


def test_nobody_is_left_when_the_owner_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], cwd=TOP, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert is_alive(pid)
        owner.kill()
        assert until(lambda: not is_alive(pid), 20)


LATE = """
import os
from tests.support.forkserver import _settle
_settle(os.dup(1), os.getpid())
print("lives", flush=True)
"""


def test_who_is_born_when_the_nursery_has_gone_ends_whoever_is_its_parent_then() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], cwd=TOP, capture_output=True, check=False)

    assert (done.returncode, done.stdout) == (1, b"")
