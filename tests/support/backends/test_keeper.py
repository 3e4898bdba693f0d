"""The keeper: what it counts as a family is all of it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.backends.child import until
from tests.support.backends.keeper import GONE_S, children, family, is_alive, state, tell

# A fork copies the tables of all this memory, so a signal comes while one goes on.
FORKS = """
import os, sys
held = bytearray(b"x") * (256 << 20)
print(flush=True)
while True:
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.fixture
def forking() -> Iterator[int]:
    """The pid of a process that nearly always is about to have another child."""
    with subprocess.Popen([sys.executable, "-c", FORKS], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


def test_a_child_that_is_being_born_is_one_of_the_family(forking: int) -> None:
    for _ in range(20):
        counted = family(forking)

        assert until(lambda: state(forking) == "T", GONE_S)
        assert [forking, *children(forking)] == counted
        tell(forking, signal.SIGCONT)


def test_who_has_gone_has_no_family_to_wait_for() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        process.communicate(b"\n")

    assert family(process.pid) == [process.pid]
    assert not is_alive(process.pid)
