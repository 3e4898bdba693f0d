"""Random programs as a check: a store behind a door and the reference side by side (D1)."""

from __future__ import annotations

import asyncio
import tempfile
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.contract.differential import Explorer, Program, ProgramFailed, Subject, replay
from tests.mutants.bug import Caught, Unnoticed
from tests.mutants.doors import DoorFactory

STEPS = 50
SHRINK_S = 0.3


class Programmed(NamedTuple):
    """So many programs at the most."""

    programs: int = 60
    proof: str = "random programs"
    unit: str = "programs"

    def play(self, invariants: tuple[str, ...]) -> Caught:
        """Play programs until one answers otherwise than on the reference."""
        with tempfile.TemporaryDirectory() as folder:
            failed, played = asyncio.run(_explore(Path(folder), self.programs))
        if failed is None:
            raise Unnoticed(f"not one of {played} programs failed")
        calls = f"{len(failed.calls)} call{'s' if len(failed.calls) != 1 else ''}"
        return Caught(("D1",), f"a program of {calls}", played, partial(_again, failed))


async def _explore(folder: Path, programs: int) -> tuple[Program | None, int]:
    subject = Subject(DoorFactory(folder))
    explorer = Explorer(subject, shrink_s=SHRINK_S)
    try:
        await explorer.explore(1, programs=programs, steps=STEPS)
    except ProgramFailed as failed:
        return failed.program, explorer.played
    finally:
        await subject.drop()
        await subject.factory.close()
    return None, explorer.played


def _again(program: Program) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_replay(Path(folder), program))


async def _replay(folder: Path, program: Program) -> None:
    subject = Subject(DoorFactory(folder))
    try:
        await replay(subject, program)
    finally:
        await subject.drop()
        await subject.factory.close()
