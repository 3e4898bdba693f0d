"""The machine under the bench: what it is, how fast it is right now, and what processes have used of it."""

from __future__ import annotations

import os
import platform
import re
import shlex
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from bench.records import Machine

TOP = Path(__file__).parent.parent
_LOOPS = 200_000


def spin() -> float:
    """Return how many milliseconds a fixed Python loop takes: the speed of this machine at this moment.

    By the clock, not by CPU time: what others take from a core is part of it.
    """
    begun = time.perf_counter()
    total = 0
    for number in range(_LOOPS):
        total += number & 7
    return (time.perf_counter() - begun) * 1e3


def resident_mb(pid: int) -> float:
    """Return the memory that a process holds, in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def peak_mb(pid: int) -> float:
    """Return the most memory that a process has held so far, in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6


def describe(module: str = "bench") -> Machine:
    """Return what this machine and this checkout are."""
    processor = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    return Machine(
        date=f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
        commit=_commit(),
        cores=len(os.sched_getaffinity(0)),
        processor=processor[1] if processor else platform.machine(),
        python=platform.python_version(),
        load=os.getloadavg()[0],
        command=shlex.join(["python", "-m", module, *sys.argv[1:]]),
    )


def _commit() -> str:
    """Return the commit that is checked out, with a `+` where files differ from it, or "" without git."""
    git = ["git", "-C", str(TOP)]
    try:
        head = subprocess.run(
            [*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
        )
        changed = subprocess.run(
            [*git, "status", "--porcelain", "--untracked-files=no"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")
