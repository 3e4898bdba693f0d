"""Plant each mutant in turn, see which invariants catch it, and write the table of docs/reliability.md.

    python -m scripts.mutants [NAME …]    # all of them, or these: then the page stays as it is
    python -m scripts.mutants --check     # plants nothing; lists where the page and the table differ

Ends non-zero if a mutant survived, or if the page is stale.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from typing import NamedTuple
from unittest import SkipTest

import pytest

from tests.mutants.checks import Survived
from tests.mutants.table import BY_NAME, TABLE, Mutant
from tests.support.proofs.page import PAGE, put, table

REGION = "mutants"
HEAD = ("mutant", "at the port", "what it does wrong", "caught by", "in", "after")
_ROW = re.compile(
    r"^\| `([a-z0-9-]+)` \| (.*?) \| (.*?) \| ([A-Z0-9 ,]+|–) \| (.*?) \|", re.MULTILINE
)


class Row(NamedTuple):
    """A mutant and what caught it."""

    mutant: Mutant
    caught: bool
    """False: it can't be planted on this machine."""
    after: str

    @property
    def cells(self) -> tuple[str, ...]:
        """Its cells in the table."""
        one = self.mutant
        names = ", ".join(one.invariants) if self.caught else "–"
        return f"`{one.name}`", one.port, one.what, names, one.check.name, self.after


def main() -> int:
    """Return 1 if anything isn't as it should be."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.mutants", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="plant these only")
    parser.add_argument("--check", action="store_true", help="compare the page with the table")
    given = parser.parse_args()
    if given.check:
        return _check()
    unknown = [name for name in given.names if name not in BY_NAME]
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(BY_NAME)}")
    began = time.process_time()
    wanted = [BY_NAME[name] for name in given.names] or list(TABLE)
    rows = [_play(mutant) for mutant in wanted]
    survived = [mutant.name for mutant, row in zip(wanted, rows, strict=True) if row is None]
    there = [row for row in rows if row is not None]
    caught = sum(row.caught for row in there)
    took_s = time.process_time() - began
    sys.stdout.write(f"{caught} of {len(wanted)} caught, {took_s:.0f} s of CPU here\n")
    if survived:
        sys.stdout.write(f"error: survived: {', '.join(survived)}\n")
        return 1
    if not given.names:
        body = table(HEAD, (row.cells for row in there))
        PAGE.write_text(put(PAGE.read_text(encoding="utf-8"), REGION, body), encoding="utf-8")
    return 0


def _play(mutant: Mutant) -> Row | None:
    """Plant a mutant and write the result; return None if it survived."""
    began = time.monotonic()
    try:
        found = mutant.catch()
    except Survived as error:
        sys.stdout.write(f"{mutant.name:28} SURVIVED: {error}\n")
        return None
    except (SkipTest, pytest.skip.Exception) as why:
        sys.stdout.write(f"{mutant.name:28} not played: {why}\n")
        return Row(mutant, caught=False, after="not played")
    played = max(caught.played for caught in found.values())
    unit = mutant.check.unit if played != 1 else mutant.check.unit.removesuffix("s")
    after = f"{played} {unit}, {time.monotonic() - began:.1f} s"
    for invariant, caught in found.items():
        sys.stdout.write(f"{mutant.name:28} {invariant:4} {mutant.check.name}: {caught.where}\n")
    sys.stdout.flush()
    return Row(mutant, caught=True, after=after)


def differences(text: str) -> list[str]:
    """Return where a page's table isn't about these mutants, proofs and invariants; times aside."""
    shown = {name: cells for name, *cells in _ROW.findall(text)}
    found = [f"{name} is on the page and not planted" for name in shown if name not in BY_NAME]
    for mutant in TABLE:
        if mutant.name not in shown:
            found.append(f"{mutant.name} is not on the page")
            continue
        port, what, invariants, proof = shown[mutant.name]
        if (port, what, proof) != (mutant.port, mutant.what, mutant.check.name):
            found.append(f"{mutant.name} is described differently on the page")
        if invariants not in (", ".join(mutant.invariants), "–"):
            found.append(f"{mutant.name} is caught by {invariants} on the page")
    return found


def _check() -> int:
    stale = differences(PAGE.read_text(encoding="utf-8"))
    for line in stale:
        sys.stdout.write(f"stale: {line}\n")
    if stale:
        sys.stdout.write("run: python -m scripts.mutants\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
