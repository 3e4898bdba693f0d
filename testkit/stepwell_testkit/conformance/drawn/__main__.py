"""`python -m stepwell_testkit.conformance.drawn`: plays many programs on one driver, or replays one.

    … --factory tests.contract.conformance.conftest:SqliteFactory --programs 5000
    … --factory tests.contract.conformance.conftest:SqliteFactory --replay eNq…

A factory (`module:Class`, made with an empty folder) opens a new store after a failure and can move
its store's clock.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import cast

from stepwell.runtime import SystemRuntime
from stepwell_testkit.conformance.drawn import Explorer, Program, ProgramFailed, Subject, replay
from stepwell_testkit.conformance.harness import StoreFactory

CHUNK = 100
"""The number of programs drawn from one seed."""


def main() -> int:
    """Play programs; return 1 at the first that fails."""
    parser = argparse.ArgumentParser(
        prog="python -m stepwell_testkit.conformance.drawn",
        description="Play programs of calls on a driver and on the reference side by side.",
    )
    parser.add_argument(
        "--factory", action="append", required=True, help="a StoreFactory, as module:Class"
    )
    parser.add_argument("--programs", type=int, default=5_000, help="how many, over all factories")
    parser.add_argument("--steps", type=int, default=50, help="calls in each")
    parser.add_argument("--seed", type=int, default=0, help="the first")
    parser.add_argument("--replay", help="play this one program, as a failure printed it")
    arguments = parser.parse_args()
    try:
        asyncio.run(_play(arguments))
    except ProgramFailed as failed:
        sys.stdout.write(f"\n{failed}\n")
        return 1
    return 0


async def _play(arguments: argparse.Namespace) -> None:
    names: list[str] = arguments.factory
    for name in names:
        with tempfile.TemporaryDirectory(prefix="stepwell-programs-") as folder:
            subject = _subject(name, Path(folder))
            try:
                if arguments.replay:
                    await replay(subject, Program.of(arguments.replay))
                    sys.stdout.write("the program passes\n")
                else:
                    await _explore(subject, arguments, -(-arguments.programs // len(names)))
            finally:
                await subject.drop()
                await subject.factory.close()


def _subject(name: str, folder: Path) -> Subject:
    module, _, kind = name.partition(":")
    make = cast("Callable[[Path], StoreFactory]", getattr(import_module(module), kind))
    return Subject(make(folder))


async def _explore(subject: Subject, arguments: argparse.Namespace, programs: int) -> None:
    clock = SystemRuntime()
    began = clock.monotonic()
    done = 0
    # One for all programs, because it keeps numbering, and Hypothesis plays a few more than
    # requested.
    explorer = Explorer(subject)
    while done < programs:
        many = min(CHUNK, programs - done)
        chunk_seed = arguments.seed + done // CHUNK
        await explorer.explore(chunk_seed, programs=many, steps=arguments.steps)
        done += many
        took_s = clock.monotonic() - began
        sys.stdout.write(
            f"\r{subject.factory.name}: {done} of {programs} programs, seed {chunk_seed},"
            f" {took_s:.0f} s, {done / max(took_s, 1e-9):.1f}/s "
        )
        sys.stdout.flush()
    sys.stdout.write("\n")


if __name__ == "__main__":
    sys.exit(main())
