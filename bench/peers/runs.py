"""Runs of the peers and of Stepwell on the same work, in turns."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.backends import Backend
from bench.machine import TOP

VENV = TOP / ".venv-peers"
PROGRAMS = Path(__file__).parent / "programs"
RESTATE = TOP / "bench/.peers/node_modules/.bin/restate-server"
TEMPORAL = TOP / "bench/.peers/bin/temporal"
SECONDS_MAX = 240


class Figures(NamedTuple):
    """Figures of one round of the work."""

    steps_per_second: float
    p50_ms: float
    p99_ms: float


class Size(NamedTuple):
    """The work: many runs of many steps at once, then one run of many."""

    runs: int = 64
    steps: int = 50
    lone: int = 200


class Peer(NamedTuple):
    """Another project on a store, by the program that runs it."""

    program: str
    store: str

    @property
    def name(self) -> str:
        """Its name in results."""
        return f"{self.program}:{self.store}"


PEERS: tuple[Peer, ...] = (
    Peer("restate", "own"),
    Peer("dbos", "sqlite"),
    Peer("dbos", "postgres"),
    Peer("langgraph", "sqlite"),
    Peer("langgraph", "postgres"),
    Peer("absurd", "postgres"),
    *([Peer("temporal", "own")] if TEMPORAL.exists() else []),
)
STEPWELL = ("sqlite", "postgres", "redis")
"""Stores on which Stepwell does the same work."""


def run(peer: Peer, backend: Backend, size: Size) -> Figures:
    """Run a peer's program once, on a place with nothing in it.

    Raises:
        PeerFailed: it ended with an error, or did not end in time.
    """
    with backend.fresh() as place:
        url = place.url.replace("postgresql+asyncpg://", "postgresql://")
        asked = {"url": url, "folder": str(place.folder), **size._asdict()}
        command = [VENV / "bin/python", PROGRAMS / f"on_{peer.program}.py", json.dumps(asked)]
        environment = {**os.environ, "RESTATE_SERVER": str(RESTATE), "TEMPORAL": str(TEMPORAL)}
        log = place.folder / "log"
        with log.open("wb") as out:
            try:
                done = subprocess.run(
                    command,
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=out,
                    timeout=SECONDS_MAX,
                    check=False,
                )
            except subprocess.TimeoutExpired as error:
                raise PeerFailed(f"{peer.name} takes more than {SECONDS_MAX} s") from error
        if done.returncode != 0:
            raise PeerFailed(f"{peer.name} failed: {log.read_text(errors='replace')[-1500:]}")
    # Some write lines of their own to standard output; the figures are the one that is an object.
    return next(_figures(done.stdout.decode(errors="replace")))


def _figures(text: str) -> Iterator[Figures]:
    for line in text.splitlines():
        if line.startswith('{"steps_per_second"'):
            yield Figures(**json.loads(line))


class PeerFailed(Exception):
    """A peer's program did not come to figures."""


def turns(number: int, names: Sequence[str]) -> list[str]:
    """Return who is measured in a round, in its order: each round begins with another."""
    first = number % len(names)
    return [*names[first:], *names[:first]]


Progress = Callable[[str], None]
