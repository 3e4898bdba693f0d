"""Builds the web console into service/stepwell/console/assets, or proves that what is there is fresh.

    make console                       # builds it; needs Node 20 or newer and npm
    .venv/bin/python scripts/console.py --check   # needs neither: it compares digests, exit code 1 on a difference
    make test-console                  # plays its tests: units in Node, then the page in a real browser

The digest is that of what the page is made from: everything in console/ that the bundle depends on, and the
protocol without its comments.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from stepwell_client.v1 import orchestrator_pb2, types_pb2

TOP = Path(__file__).resolve().parent.parent
SOURCES = TOP / "console"
ASSETS = TOP / "service" / "stepwell" / "console" / "assets"
DIGEST = "sources.sha256"
_FILES = ("build.mjs", "buf.gen.yaml", "icon.svg", "index.html", "package-lock.json")
_PROTOS = ("limits", "types", "orchestrator")
_STALE = "error: the console's assets are not what console/ says now; run `make console`"


def digest() -> str:
    """Return the digest of what the page is made from."""
    made = hashlib.sha256()
    paths = [SOURCES / name for name in _FILES]
    paths += [
        path
        for path in (SOURCES / "src").rglob("*")
        if path.is_file() and "gen" not in path.relative_to(SOURCES / "src").parts
    ]
    for path in sorted(paths):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        made.update(f"{path.relative_to(SOURCES).as_posix()} {content}\n".encode())
    for module in (types_pb2, orchestrator_pb2):
        made.update(module.DESCRIPTOR.serialized_pb)
    return made.hexdigest()


def is_fresh() -> bool:
    """Return whether the assets were built from the sources as they are."""
    written = ASSETS / DIGEST
    return written.is_file() and written.read_text(encoding="utf-8").strip() == digest()


def build() -> None:
    """Build the page."""
    _prepare()
    _run("node", "build.mjs", str(ASSETS))
    (ASSETS / DIGEST).write_text(digest() + "\n", encoding="utf-8")
    size = sum(path.stat().st_size for path in ASSETS.iterdir())
    print(f"{len(list(ASSETS.iterdir()))} files, {size:,} bytes, in {ASSETS.relative_to(TOP)}")


def test(arguments: list[str]) -> None:
    """Play the tests of units, and those in a browser where there is one."""
    missing = [name for name in ("npm", "chromium") if shutil.which(name) is None]
    if missing:
        text = f"no {' and no '.join(missing)} here (Debian: nodejs, npm, chromium)"
        if "chromium" in os.environ.get("STEPWELL_TEST_REQUIRE", "").split(","):
            sys.exit(f"error: {text}")
        print(f"skipped: the tests of the console, {text}")
        return
    if not is_fresh():
        sys.exit(_STALE)
    _prepare()
    _run("npm", "test", "--silent")
    _run("npm", "run", "--silent", "test:browser", "--", *(arguments or ["build/browser/"]))


def _prepare() -> None:
    """Install the packages, make the protocol's TypeScript and check all types."""
    if shutil.which("npm") is None:
        sys.exit(
            "error: no npm here; building the console needs Node 20 or newer (Debian: nodejs, npm)"
        )
    if not (SOURCES / "node_modules" / ".ready").exists() or _is_older():
        _run("npm", "ci", "--no-audit", "--no-fund", "--loglevel=error")
        (SOURCES / "node_modules" / ".ready").touch()
    protos = [f"--path=../proto/stepwell/v1/{name}.proto" for name in _PROTOS]
    buf = str(Path(sys.executable).parent / "buf")
    _run(buf, "generate", "--template", "buf.gen.yaml", "../proto", *protos)
    _run("node_modules/.bin/tsc", "--project", ".")


def _is_older() -> bool:
    ready = SOURCES / "node_modules" / ".ready"
    return ready.stat().st_mtime < (SOURCES / "package-lock.json").stat().st_mtime


def _run(*command: str) -> None:
    if subprocess.run(command, cwd=SOURCES, check=False).returncode != 0:
        sys.exit(f"error: {command[0]} failed; its words are above")


def main() -> None:
    """Read the arguments, then build, compare or test."""
    parser = argparse.ArgumentParser(description="Build the web console.")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--test", action="store_true", help="play the tests")
    arguments, others = parser.parse_known_args()
    if arguments.test:
        test(others)
    elif not arguments.check:
        build()
    elif not is_fresh():
        sys.exit(_STALE)


if __name__ == "__main__":
    main()
