"""Node, the packages that the smoke program needs, and the program as a process that tells facts.

The packages are installed once per lock file, into the user's cache folder: nothing is written into the
checkout. Where that can't be done the tests are skipped with the reason, unless `STEPWELL_TEST_REQUIRE`
names `node`.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.support.backends.required import missing

TOP = Path(__file__).parents[3]
SMOKE = TOP / "clients" / "typescript" / "smoke"
MAJOR_MIN = 20
INSTALL_S = 100.0
PATIENCE = ("--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000")
FACT_S = 60.0

Fact = dict[str, Any]


def find_node() -> str:
    """Return the path of a Node that is new enough."""
    node = shutil.which("node")
    if node is None:
        missing("node", "there is no `node` on the PATH")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.removeprefix("v").partition(".")[0]) < MAJOR_MIN:
        missing("node", f"node is {version.strip()}; {MAJOR_MIN} or newer is needed")
    return node


def install() -> Path:
    """Return a `node_modules` of what the lock file says; another test process may make it too."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stepwell-tests"
    lock = (SMOKE / "package-lock.json").read_bytes() + (SMOKE / "package.json").read_bytes()
    place = cache / f"node-{hashlib.sha256(lock).hexdigest()[:16]}"
    ready = place / ".ready"
    place.mkdir(parents=True, exist_ok=True)
    with (place / ".lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if not ready.exists():
            for name in ("package.json", "package-lock.json", ".npmrc"):
                shutil.copy(SMOKE / name, place / name)
            _npm_ci(place)
            ready.touch()
    return place / "node_modules"


def _npm_ci(place: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        missing("node", "there is no `npm` on the PATH")
    try:
        subprocess.run(
            [npm, "ci", "--prefer-offline", "--include=dev", "--loglevel=error", *PATIENCE],
            cwd=place,
            capture_output=True,
            text=True,
            check=True,
            timeout=INSTALL_S,
        )
    except subprocess.CalledProcessError as error:
        missing("node", f"npm can't install the packages:\n{error.stderr[-2_000:]}")
    except subprocess.TimeoutExpired:
        missing("node", f"npm did not install the packages within {INSTALL_S:.0f} s")


def lay_out(folder: Path, modules: Path) -> Path:
    """Copy the program to where it finds both the packages and proto/; return its folder."""
    smoke = folder / "clients" / "typescript" / "smoke"
    smoke.mkdir(parents=True)
    for path in (*SMOKE.glob("*.mjs"), SMOKE / "package.json", SMOKE / "tsconfig.json"):
        shutil.copy(path, smoke / path.name)
    (smoke / "node_modules").symlink_to(modules)
    (folder / "proto").symlink_to(TOP / "proto")
    return smoke


class Program:
    """The smoke program while it runs."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.facts: list[Fact] = []

    @classmethod
    async def start(
        cls, node: str, folder: Path, environment: dict[str, str], *flags: str
    ) -> Program:
        """Start it; with `--hold` it waits in the middle."""
        pipe = asyncio.subprocess.PIPE
        return cls(
            await asyncio.create_subprocess_exec(
                node,
                "smoke.mjs",
                *flags,
                cwd=folder,
                env=environment,
                stdin=pipe,
                stdout=pipe,
                stderr=asyncio.subprocess.STDOUT,
            )
        )

    async def until(self, name: str) -> Fact:
        """Read on to the next fact of this name."""
        out = self._process.stdout
        assert out is not None
        try:
            async with asyncio.timeout(FACT_S):
                while line := await out.readline():
                    if not line.startswith(b"{"):
                        rest = await out.read()
                        raise AssertionError(f"the program failed:\n{(line + rest).decode()}")
                    self.facts.append(json.loads(line))
                    if self.facts[-1]["fact"] == name:
                        return self.facts[-1]
        except TimeoutError:
            pass
        raise AssertionError(f"the program did not come to {name!r}: {self.facts}")

    def enter(self) -> None:
        """Press Enter: the task that was held goes on."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")

    async def finish(self) -> None:
        """Read to the end, which must be a good one."""
        await self.until("done")
        async with asyncio.timeout(FACT_S):
            assert await self._process.wait() == 0

    def all(self, name: str, **about: object) -> list[Fact]:
        """Return the facts of this name that say all of this."""
        return [
            fact
            for fact in self.facts
            if fact["fact"] == name and about.items() <= {k: fact.get(k) for k in about}.items()
        ]

    def one(self, name: str, **about: object) -> Fact:
        (fact,) = self.all(name, **about)
        return fact

    async def close(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
