"""The scripts, and calls of them.

Each is a file below `lua/`, whose first line names its flags. All begin with the same prelude, some
with more. A server that doesn't know a script refuses the call, and is then sent the source.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.resources import files
from typing import NamedTuple

WALL_CLOCK: list[str] = []
"""In place of `wall.lua`, for tests that set the servers' clock: the last item counts."""

_FLAGS = "--!lua flags="


class Script:
    """A script: digest and source."""

    __slots__ = ("by_digest", "by_source", "name")

    def __init__(self, name: str, source: str) -> None:
        self.name = name
        text = source.encode()
        # Redis names scripts by SHA-1; no secret depends on it.
        digest = hashlib.sha1(text, usedforsecurity=False).hexdigest()
        self.by_digest = (b"EVALSHA", digest.encode())
        self.by_source = (b"EVAL", text)


class Call(NamedTuple):
    """A script with its keys and arguments."""

    script: Script
    keys: Sequence[bytes]
    arguments: Sequence[bytes]

    def command(self, *, with_source: bool = False) -> tuple[bytes, ...]:
        """Return the command as it is sent."""
        script = self.script.by_source if with_source else self.script.by_digest
        return (*script, b"%d" % len(self.keys), *self.keys, *self.arguments)


class Scripts:
    """All scripts of the driver."""

    def __init__(self) -> None:
        folder = files("stepwell_drivers.redis") / "lua"

        def read(name: str) -> str:
            return (folder / f"{name}.lua").read_text(encoding="utf-8")

        wall = WALL_CLOCK[-1] if WALL_CLOCK else read("wall")
        prelude = f"{wall}\n{read('prelude')}\n"

        def script(name: str, *parts: str) -> Script:
            head, _, body = read(name).partition("\n")
            assert head.startswith(_FLAGS), name
            flags = head.removeprefix(_FLAGS)
            shebang = f"#!lua flags={flags}" if flags else "#!lua"
            return Script(name, f"{shebang}\n{prelude}{''.join(map(read, parts))}{body}")

        self.base = script("base")
        self.birth = script("birth")
        self.commit = script("commit", "entries")
        self.delete = script("delete")
        self.ended = script("ended")
        self.events = script("events")
        self.executions = script("executions")
        self.free = script("free")
        self.hold = script("hold")
        self.journal = script("journal")
        self.load = script("load")
        self.log = script("log")
        self.logged = script("logged")
        self.page = script("page")
        self.peek = script("peek")
        self.presence = script("presence")
        self.present = script("present")
        self.probe = script("probe")
        self.purge = script("purge")
        self.record = script("record", "entries")
        self.renew = script("renew")
        self.runs = script("runs")
        self.settle = script("settle")
        self.swap = script("swap")
        self.sweep = script("sweep")
        self.trim = script("trim")
