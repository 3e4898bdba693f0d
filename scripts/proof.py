"""Play the proofs at their full size, add up what they did, and see that the rare things happened.

    python -m scripts.proof [--scale proof|soak] [--records FOLDER] [--write] [PYTEST ARGUMENT …]

Ends non-zero if a proof failed, or if something that must happen was never met in a whole run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.support.proofs import page, record, sizes
from tests.support.proofs.must_happen import MUST_HAPPEN

TOP = Path(__file__).parent.parent


def main() -> int:
    """Return pytest's code, or 1 if something never happened."""
    parser = argparse.ArgumentParser(prog="python -m scripts.proof", description=__doc__)
    parser.add_argument("--scale", choices=list(sizes.Scale), default=sizes.Scale.PROOF)
    parser.add_argument("--jobs", default="2", help="test processes; 0: in one, for a debugger")
    parser.add_argument("--records", type=Path, default=TOP / "build" / "proof")
    parser.add_argument(
        "--write", action="store_true", help="put the figures into docs/reliability.md"
    )
    given, arguments = parser.parse_known_args()
    shutil.rmtree(given.records, ignore_errors=True)
    environment = {
        **os.environ,
        sizes.SCALE: given.scale,
        record.FOLDER: str(given.records.resolve()),
    }
    command = [sys.executable, "-m", "pytest", "-m", "proof", "-n", given.jobs]
    command += ["--dist", "worksteal", *arguments]
    code = subprocess.run(command, cwd=TOP, env=environment, check=False).returncode
    told = record.together(record.kept(given.records)) if given.records.is_dir() else []
    _print(told)
    if given.write and not code:
        _write(told)
    if arguments:
        # A part of it was asked for: what it met says nothing about the whole.
        return code
    return code or _never_happened(told)


def _print(told: Sequence[record.Record]) -> None:
    for one in told:
        if one.proof:
            figures = ", ".join(f"{count:,} {what}" for what, count in one.figures.items())
            seed = f", seed {one.seed}" if one.seed else ""
            sys.stdout.write(f"{one.proof}: {figures} ({one.seconds:.0f} s{seed})\n")


def _write(told: Sequence[record.Record]) -> None:
    """Put into the page what was played."""
    text = page.PAGE.read_text(encoding="utf-8")
    text = page.put(text, "figures", page.figures(told))
    text = page.put(text, "rare", page.rare(_met(told)))
    page.PAGE.write_text(text, encoding="utf-8")


def _met(told: Sequence[record.Record]) -> list[tuple[str, int]]:
    met = Counter[str]()
    for one in told:
        met.update(one.happened)
    return [(name, met[name]) for name in MUST_HAPPEN]


def _never_happened(told: Sequence[record.Record]) -> int:
    met = _met(told)
    for name, count in met:
        sys.stdout.write(f"{count:10,d}  {name}\n")
    missing = [name for name, count in met if not count]
    if missing:
        sys.stdout.write(f"error: never happened: {', '.join(missing)}\n")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
