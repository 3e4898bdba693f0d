"""Play the proofs at their full size, add up what they did, and check that the rare things happened.

    python -m scripts.proof [--scale proof|soak] [--share N] [--again] [--write] [PYTEST ARGUMENT …]

What passed is kept under build/proof, by the tree that it was played with: a run that was
interrupted goes on where it was. `--again` plays everything again, and so does a run of some
proofs, picked by arguments of pytest. Ends non-zero if a proof failed, or if something that must
happen was never met.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from tests.support import doors
from tests.support.proofs import page, record, shares, sizes
from tests.support.proofs.must_happen import MUST_HAPPEN
from tests.support.proofs.played import Played, read

TOP = Path(__file__).parent.parent
NOTHING_LEFT = 5
"""Pytest's code where no test was selected."""


def main() -> int:
    """Return pytest's code, or 1 if something never happened."""
    parser = argparse.ArgumentParser(prog="python -m scripts.proof", description=__doc__)
    parser.add_argument("--scale", choices=list(sizes.Scale), default=sizes.Scale.PROOF)
    parser.add_argument("--jobs", default="2", help="test processes; 0: in one, for a debugger")
    parser.add_argument("--share", help="play a tenth of the proofs: 0 to 9")
    parser.add_argument("--again", action="store_true", help="also what was played before")
    parser.add_argument(
        "--write", action="store_true", help="put figures and seconds into page and table"
    )
    given, arguments = parser.parse_known_args()
    path = TOP / "build" / "proof" / f"{given.scale}-{_tree()}.jsonl"
    if given.again or not _tree():
        path.unlink(missing_ok=True)
    # With `=`: pytest takes a path that stands alone for a test file as long as it does not know the option.
    command = [sys.executable, "-m", "pytest", f"--door={doors.Door.PROOF}", f"--played={path}"]
    command += ["-n", given.jobs, "--dist", "worksteal", *arguments]
    if given.share is not None:
        command += [f"--share={given.share}"]
    if not arguments:
        command += ["--go-on"]
    before = len(read(path).tests)
    if before and not arguments:
        sys.stdout.write(f"{before} proofs were played at this commit: {path}\n")
        sys.stdout.flush()
    environment = {**os.environ, sizes.SCALE: given.scale}
    code = subprocess.run(command, cwd=TOP, env=environment, check=False).returncode
    played = read(path)
    if code == NOTHING_LEFT and not arguments and played.selected:
        sys.stdout.write("nothing is left to play; --again plays it anew\n")
        code = 0
    together = record.together(played.records)
    _print(together)
    whole = not arguments and given.share is None
    if given.write and whole and not code:
        _write(played, together)
    # A part that was picked says nothing about the rest.
    wanted = MUST_HAPPEN if whole else () if arguments else played.must_meet
    return code or _never_happened(together, wanted)


def _tree() -> str:
    """Return the hash of all that stands in the working tree; empty without git."""
    git = shutil.which("git")
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "GIT_INDEX_FILE": f"{folder}/index"}
        for arguments in (["read-tree", "HEAD"], ["add", "--all"], ["write-tree"]):
            done = subprocess.run(
                [git or "false", *arguments],
                cwd=TOP,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                return ""
    return done.stdout.strip()


def _print(records: Sequence[record.Record]) -> None:
    for one in records:
        if one.proof:
            figures = ", ".join(f"{count:,} {what}" for what, count in one.figures.items())
            seed = f", seed {one.seed}" if one.seed else ""
            sys.stdout.write(f"{one.proof}: {figures} ({one.seconds:.0f} s{seed})\n")


def _write(played: Played, records: Sequence[record.Record]) -> None:
    """Put into the page what was played, and into the table how long each took."""
    text = page.PAGE.read_text(encoding="utf-8")
    text = page.put(text, "figures", page.figures(records))
    text = page.put(text, "rare", page.rare(_met(records)))
    page.PAGE.write_text(text, encoding="utf-8")
    doors.keep_expected(doors.Door.PROOF, shares.measured(played.tests))


def _met(records: Sequence[record.Record]) -> list[tuple[str, int]]:
    met = Counter[str]()
    for one in records:
        met.update(one.happened)
    return [(name, met[name]) for name in MUST_HAPPEN]


def _never_happened(records: Sequence[record.Record], wanted: Collection[str]) -> int:
    met = _met(records)
    for name, count in met:
        if count or name in wanted:
            sys.stdout.write(f"{count:10,d}  {name}\n")
    missing = [name for name, count in met if name in wanted and not count]
    if missing:
        sys.stdout.write(f"error: never happened: {', '.join(missing)}\n")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
