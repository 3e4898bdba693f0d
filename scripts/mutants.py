"""Plant each known bug in turn, see which invariant catches it, and write the table of docs/reliability.md.

    python -m scripts.mutants [NAME …]    # all of them, or these: then the page stays as it is
    python -m scripts.mutants --check     # plants nothing; says where the page and the catalogue differ

Ends non-zero if a bug went unnoticed, or if the page is stale.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple
from unittest import SkipTest

import pytest

from tests.mutants.bug import Bug, Unnoticed, catch
from tests.mutants.catalogue import BUGS, BY_NAME
from tests.support.proofs.page import PAGE, put, table

HEAD = ("planted bug", "what it is", "caught by", "in which proof", "after")
_ROW = re.compile(r"^\| `([a-z0-9-]+)` \| (.*?) \| ([A-Z0-9]+|–) \| (.*?) \|", re.MULTILINE)


class Row(NamedTuple):
    """A bug, and what caught it."""

    bug: Bug
    invariant: str
    """Empty: it can't be planted on this machine."""
    after: str

    @property
    def cells(self) -> tuple[str, ...]:
        """Its cells in the table."""
        name, caught = f"`{self.bug.name}`", self.invariant or "–"
        return name, self.bug.what, caught, self.bug.check.proof, self.after


def main() -> int:
    """Return 1 if anything isn't as it should be."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.mutants", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="plant these only")
    parser.add_argument("--check", action="store_true", help="compare the page with the catalogue")
    given = parser.parse_args()
    if given.check:
        return _check()
    unknown = [name for name in given.names if name not in BY_NAME]
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(BY_NAME)}")
    rows: list[Row] = []
    unnoticed: list[str] = []
    began = time.process_time()
    for bug in [BY_NAME[name] for name in given.names] or BUGS:
        row = _play(bug)
        if row is None:
            unnoticed.append(bug.name)
        else:
            rows.append(row)
    caught = sum(bool(row.invariant) for row in rows)
    took_s = time.process_time() - began
    sys.stdout.write(
        f"{caught} of {len(rows) + len(unnoticed)} caught, {took_s:.0f} s of CPU here\n"
    )
    if unnoticed:
        sys.stdout.write(f"error: unnoticed: {', '.join(unnoticed)}\n")
        return 1
    if not given.names:
        body = table(HEAD, (row.cells for row in rows))
        PAGE.write_text(put(PAGE.read_text(encoding="utf-8"), "teeth", body), encoding="utf-8")
    return 0


def _play(bug: Bug) -> Row | None:
    """Plant it, and say what came of it; None: nothing noticed."""
    began = time.monotonic()
    try:
        invariant, caught = catch(bug)
    except Unnoticed as error:
        sys.stdout.write(f"{bug.name:34} UNNOTICED: {error}\n")
        return None
    except (SkipTest, pytest.skip.Exception) as why:
        sys.stdout.write(f"{bug.name:34} not played: {why}\n")
        return Row(bug, "", "not played")
    took_s = time.monotonic() - began
    unit = bug.check.unit if caught.tried != 1 else bug.check.unit.removesuffix("s")
    after = f"{caught.tried} {unit}, {took_s:.1f} s"
    sys.stdout.write(f"{bug.name:34} {invariant:4} {bug.check.proof}: {caught.where}; {after}\n")
    sys.stdout.flush()
    return Row(bug, invariant, after)


def differences(text: str) -> list[str]:
    """Return where a page's table isn't about these bugs, proofs and invariants; times aside."""
    shown = {name: cells for name, *cells in _ROW.findall(text)}
    found = [f"{name} is on the page and not planted" for name in shown if name not in BY_NAME]
    for bug in BUGS:
        if bug.name not in shown:
            found.append(f"{bug.name} is not on the page")
            continue
        what, invariant, proof = shown[bug.name]
        if (what, proof) != (bug.what, bug.check.proof):
            found.append(f"{bug.name} is told otherwise on the page")
        if invariant not in (*bug.invariants, "–"):
            found.append(f"{bug.name} is caught by {invariant} on the page")
    return found


def _check() -> int:
    stale: Sequence[str] = differences(PAGE.read_text(encoding="utf-8"))
    for line in stale:
        sys.stdout.write(f"stale: {line}\n")
    if stale:
        sys.stdout.write("run: python -m scripts.mutants\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
