"""The tutorial's files and commands do what it says, in its order."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell.cli.exits import Exit
from tests.docs.pages import TOP, blocks
from tests.docs.shell import Shell, stepwell_commands, stop

PAGE = TOP / "docs" / "tutorial.md"
TEXT = PAGE.read_text(encoding="utf-8")
COMMANDS = [line for block in blocks(PAGE, "sh") for line in stepwell_commands(block.text)]
CITIES = ("Lima", "Oslo", "Rome")


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    names = re.findall(r"^Save this as `(\w+\.py)`:$", TEXT, re.MULTILINE)
    for name, block in zip(names, blocks(PAGE, "python"), strict=True):
        text = block.text.replace("PAUSE = 5.0", "PAUSE = 1.5")
        (tmp_path / name).write_text(text, encoding="utf-8")
    with Shell(tmp_path) as made:
        # Any free port: others of this machine may have a console as well.
        made.environment["STEPWELL_CONSOLE__PORT"] = "0"
        yield made


class Reader:
    """Types the page's commands in their order, each once."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.left = list(COMMANDS)
        self.names: dict[str, str] = {}

    def next(self, beginning: str) -> str:
        """Return the next command, with the reader's own ids in it."""
        command = self.left.pop(0)
        assert command.startswith(beginning), command
        return re.sub(r"\b[A-Z]{3,}\b", lambda found: self.names.get(found[0], found[0]), command)

    def type(self, beginning: str, code: Exit = Exit.DONE) -> str:
        """Type the next command and return what it printed."""
        done = self.shell.run(self.next(beginning))
        assert done.returncode == code, (beginning, done.stdout, done.stderr)
        return done.stdout

    def newest(self) -> str:
        return self.shell.run("stepwell ls").stdout.splitlines()[1].split()[0]


def kill_with_worker(process: subprocess.Popen[bytes]) -> None:
    """Do what the page's `pkill` does, to the processes of this test alone."""
    assert "pkill -9 -f 'stepwell (up|worker)'\n" in [block.text for block in blocks(PAGE, "sh")]
    found = subprocess.run(["pgrep", "-P", f"{process.pid}"], check=True, capture_output=True)
    os.kill(process.pid, signal.SIGSTOP)
    for worker in found.stdout.split():
        os.kill(int(worker), signal.SIGKILL)
    stop(process, signal.SIGKILL)


@pytest.mark.timeout(118)
def test_the_tutorial_works_as_it_stands(shell: Shell) -> None:
    reader = Reader(shell)
    before = shell.serve(reader.next("stepwell up"))
    follower = shell.start(reader.next("stepwell run"))
    wanted = [f"fare to {city}" for city in CITIES]
    shell.until(lambda: all(line in shell.said(before) for line in wanted), before)
    kill_with_worker(before)
    after = shell.serve(reader.next("stepwell up"))

    assert "RUN " in reader.type("stepwell ls")
    reader.names["RUN"] = reader.newest()
    reader.type("stepwell watch", Exit.STANDS_STILL)
    follower.wait(60)
    said = shell.said(before) + shell.said(after)
    assert [said.count(f"weather in {city}") for city in CITIES] == [1, 1, 1]
    assert [shell.said(after).count(f"fare to {city}") for city in CITIES] == [1, 1, 1]

    assert "Book Rome for 90?" in reader.type("stepwell questions")
    shown = reader.type("stepwell show")
    assert re.search(r"\? book .* asks: Book Rome for 90\?", shown)
    reader.names["VERSION"] = re.findall(r"^version +(\d+)$", shown, re.MULTILINE)[0]
    reader.type("stepwell answer")
    shell.run(f"stepwell watch {reader.names['RUN']}")
    assert reader.type("stepwell show").strip().endswith("booked: Rome")

    reader.type("stepwell fork", Exit.STANDS_STILL)
    reader.names["FORK"] = reader.newest()
    reader.type("stepwell answer")
    followed = shell.run(f"stepwell watch {reader.names['FORK']}")
    assert followed.returncode == Exit.DONE, followed.stderr
    assert "stayed at home" in reader.type("stepwell diff")
    assert [shell.said(after).count(f"weather in {city}") for city in CITIES] == [0, 0, 0]

    reader.type("stepwell run", Exit.STANDS_STILL)
    reader.names["CHEAP"] = reader.newest()
    reader.type("stepwell budget")
    shell.run(f"stepwell watch {reader.names['CHEAP']}")
    reader.type("stepwell answer")
    assert reader.left == []


def test_the_tutorials_own_test_passes(shell: Shell) -> None:
    assert "python test_trip.py\n" in [block.text for block in blocks(PAGE, "sh")]
    done = shell.run(f"{sys.executable} test_trip.py")
    assert done.returncode == 0, done.stderr
