"""Measurements of a process from outside: memory, open files, threads and the lines that it has logged."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.chaos.world.programs import Program

KIB = 1024


class Vitals(NamedTuple):
    """One measurement of a process."""

    rss_bytes: int
    fds: int
    threads: int


def vitals_of(program: Program) -> Vitals:
    """Measure a process.

    Raises:
        OSError: it has ended.
    """
    process = Path(f"/proc/{program.pid}")
    status = dict(
        line.split(":", 1) for line in (process / "status").read_text().splitlines() if ":" in line
    )
    return Vitals(
        rss_bytes=int(status["VmRSS"].split()[0]) * KIB,
        fds=len(list((process / "fd").iterdir())),
        threads=int(status["Threads"]),
    )


class LogReader:
    """Counts the lines and bytes that a program has logged over all its lives, each read once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.bytes = 0
        self.lines = 0

    def read(self) -> None:
        """Count what was written since the last time."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self.bytes)
            new = file.read()
        self.bytes += len(new)
        self.lines += new.count(b"\n")


class Series:
    """Values by name, each with the seconds since the beginning at which it was taken."""

    def __init__(self) -> None:
        self._values: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)

    def add(self, at_s: float, **values: float) -> None:
        """Add values that were taken at the same moment."""
        for name, value in values.items():
            self._values[name].append((at_s, value))

    def names(self) -> list[str]:
        """Return the names of all values."""
        return sorted(self._values)

    def between(self, name: str, begin_s: float, end_s: float) -> list[float]:
        """Return the values of one name that were taken from `begin_s` to `end_s`."""
        return [value for at_s, value in self._values[name] if begin_s <= at_s <= end_s]

    def highest(self, name: str) -> float:
        """Return the highest value of a name; 0 where there is none."""
        return max((value for _, value in self._values[name]), default=0.0)

    def thirds(self, name: str, begin_s: float, end_s: float) -> tuple[float, float]:
        """Return the medians of the first and of the last third of a stretch of time."""
        third = (end_s - begin_s) / 3
        first = self.between(name, begin_s, begin_s + third)
        last = self.between(name, end_s - third, end_s)
        return (median(first) if first else 0.0), (median(last) if last else 0.0)
