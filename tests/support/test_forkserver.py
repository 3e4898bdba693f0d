"""A forked program is a process like any other, and none of them outlives the forkserver's owner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.backends.child import until
from tests.support.backends.keeper import is_alive
from tests.support.forkserver import TOP, Asked, Life, forkserver
from tests.support.patience import PATIENCE_S

SPEAKER = "tests.support.speaker"


def forked(log: Path, *arguments: str, **environment: str) -> Life:
    asked = Asked(SPEAKER, arguments, {**os.environ, **environment})
    with log.open("ab") as out:
        return forkserver().fork(asked, out.fileno())


def test_child_has_its_own_arguments_environment_and_log(tmp_path: Path) -> None:
    one = forked(tmp_path / "one", "first", SPEAKER_WORD="yes")
    # The interpreter reads its path at its start: this one is not forked but started anew.
    path = os.pathsep.join(["/nowhere", str(TOP)])
    other = forked(tmp_path / "other", "second", PYTHONPATH=path)

    assert (one.wait(PATIENCE_S), other.wait(PATIENCE_S)) == (0, 0)
    assert (tmp_path / "one").read_text() == "first yes __main__ warm\n"
    assert (tmp_path / "other").read_text() == "second None __main__ fresh\n"


@pytest.mark.parametrize(("argument", "code"), [("fail", 7), ("raise", 1), ("wait", -9)])
def test_exit_code_of_a_child_is_known(tmp_path: Path, argument: str, code: int) -> None:
    life = forked(tmp_path / "log", argument)
    if code < 0:
        life.signal(signal.SIGKILL)
    assert life.wait(PATIENCE_S) == code
    # Nobody is reached by it any more.
    life.signal(signal.SIGKILL)


OWNER = """
import os, signal, sys
from tests.support.forkserver import Asked, forkserver
life = forkserver().fork(Asked("tests.support.speaker", ["wait"], dict(os.environ)), 1)
print(life.pid, flush=True)
signal.pause()
"""


def test_child_exits_when_the_owner_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], cwd=TOP, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert is_alive(pid)
        owner.kill()
        assert until(lambda: not is_alive(pid), PATIENCE_S)


LATE = """
import os
from tests.support.forkserver import _detach
_detach(os.dup(1), os.getpid())
print("lives", flush=True)
"""


def test_child_forked_after_the_forkserver_died_exits_under_any_parent() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], cwd=TOP, capture_output=True, check=False)

    assert (done.returncode, done.stdout) == (1, b"")
