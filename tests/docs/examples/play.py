"""A demo as a program, played to its end."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.docs.pages import TOP


def play(example: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Play an example's demo; its output is one text."""
    return subprocess.run(
        [sys.executable, "-m", f"examples.{example}.demo", *arguments],
        cwd=TOP,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        # What the caller has set for a server of his own must not reach the demo's.
        env=os.environ | {"STEPWELL_TARGET": "127.0.0.1:1", "STEPWELL_GRPC__PORT": "none"},
        check=False,
    )


def alive(pid: int) -> bool:
    """Return whether a process is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
