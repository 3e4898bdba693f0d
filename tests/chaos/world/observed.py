"""A replica that keeps a diary: the `stepwell` program itself, with a scribe at its door to the store.

    python -m tests.chaos.world.observed serve --store URL --port N

Every commit is written down before it is sent and again with its verdict, so that a SIGKILL between
the two leaves a commit of unknown fate and never an unseen one. What a claim found due is written
down too. The environment adds faults: hints that are dropped, commits whose answer is lost.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import msgspec

from stepwell.__main__ import main
from stepwell.core.port import (
    Claim,
    Claimed,
    Commit,
    CommitResult,
    Hint,
    JournalAck,
    JournalWrite,
    Loaded,
    Store,
)
from stepwell.core.records.errors import OutcomeUnknown, StoreError
from stepwell.core.records.states import DueKind
from stepwell.rpc import server
from stepwell.store.opener import open_store
from stepwell_testkit.proxy import StoreProxy

DIARY = "REPLICA_DIARY"
NAME = "REPLICA_NAME"
DEAF = "REPLICA_DEAF"
"""The share of the runs, from 0 to 1, of which every hint of the store is dropped; the same at all replicas."""
LOST_ANSWERS = "REPLICA_LOST_ANSWERS"
"""The share of groups of commits, from 0 to 1, that are applied and get no answer."""


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of a diary."""

    door: str
    at: float
    """The moment by the machine's one monotonic clock: diaries of all replicas can be compared."""
    sent: Commit | None = None
    commit_id: str = ""
    result: CommitResult | None = None
    """The store's verdict on `commit_id`."""
    lost: str = ""
    """A commit that was applied, though the replica got no answer."""
    failed: str = ""
    """A commit that the store itself could not answer for."""
    certain: bool = False
    """With `failed`: the store said that nothing was done."""
    due: tuple[tuple[str, str], ...] = ()
    """(run, token) of the expired leases that a claim returned."""
    deaf: bool = False
    """A hint was dropped; the first alone is written down."""
    look: Look | None = None
    write: JournalWrite | None = None
    """Sent, or answered if there is an answer."""
    recorded: JournalAck | None = None
    asked: float = 0.0
    """With `recorded`: when it was sent."""


class Look(msgspec.Struct, frozen=True):
    """The rows of a run that a load returned."""

    asked: float
    run_id: str
    version: int
    commit_id: str
    open: dict[str, str] | None
    """Token by open execution; None: the load returned only what had changed."""


class Scribe(StoreProxy):
    """A replica's door to the store."""

    def __init__(self, inner: Store, diary: Path, name: str) -> None:
        super().__init__(inner)
        self._file = os.open(diary, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        _take_back_torn_line(self._file)
        self._door = name
        self.seen: Counter[str] = Counter()
        """Count the calls, and how those ended that commit."""
        self._chance = Random(self._door)
        self._lost = float(os.environ.get(LOST_ANSWERS, "0"))
        self._deaf = float(os.environ.get(DEAF, "0"))
        self._said_deaf = False

    def _write(self, entries: Sequence[dict[str, Any]]) -> None:
        at = time.monotonic()
        lines = [msgspec.json.encode(Entry(self._door, at, **fields)) for fields in entries]
        if lines:
            os.write(self._file, b"\n".join(lines) + b"\n")

    async def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        self.seen["operations"] += 1
        return await super().call(method, *args, **kwargs)

    async def load(self, tenant_id: str, run_id: str, *, since: int = 0) -> Loaded | None:
        asked = time.monotonic()
        loaded = await super().load(tenant_id, run_id, since=since)
        if loaded is not None:
            rows = {one.execution.execution_id: one.token for one in loaded.executions}
            known = (run_id, loaded.run.version, loaded.commit_id)
            self._write([{"look": Look(asked, *known, rows if loaded.complete else None)}])
        return loaded

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        self._write([{"sent": commit} for commit in commits])
        try:
            results = await super().commit(commits)
        except StoreError as error:
            certain = not isinstance(error, OutcomeUnknown)
            self.seen["unavailable" if certain else "unknown"] += 1
            self._write([{"failed": c.commit_id, "certain": certain} for c in commits])
            raise
        if self._lost and self._chance.random() < self._lost:
            pairs = zip(commits, results, strict=True)
            self._write([{"lost": c.commit_id} for c, r in pairs if r.verdict == "COMMITTED"])
            raise OutcomeUnknown("no answer came in time")
        self.seen.update(one.verdict for one in results)
        pairs = zip(commits, results, strict=True)
        self._write([{"commit_id": c.commit_id, "result": r} for c, r in pairs])
        return results

    async def write_journal(self, writes: Sequence[JournalWrite]) -> Sequence[JournalAck]:
        asked = time.monotonic()
        self._write([{"write": one} for one in writes])
        answers = await super().write_journal(writes)
        pairs = zip(writes, answers, strict=True)
        self._write([{"write": r, "recorded": a, "asked": asked} for r, a in pairs])
        return answers

    async def claim(self, claim: Claim) -> Claimed:
        claimed = await self.inner.claim(claim)
        due = [(one.run_id, one.token) for one in claimed.due if one.kind is not DueKind.TIMER]
        if due:
            self._write([{"due": due}])
        return claimed

    def subscribe(self, hint: Hint) -> Callable[[], None]:
        def pass_on(tenant_id: str, run_id: str, version: int = 0) -> None:
            if not self._drops(run_id):
                hint(tenant_id, run_id, version)

        return self.inner.subscribe(pass_on if self._deaf else hint)

    def _drops(self, run_id: str) -> bool:
        if not run_id:
            # "Any of them may have changed", after a connection was lost.
            return self._deaf >= 1
        drops = crc32(run_id.encode()) < self._deaf * 2**32
        if drops and not self._said_deaf:
            self._said_deaf = True
            self._write([{"deaf": True}])
        return drops


def _take_back_torn_line(file: int) -> None:
    """Cut off what a SIGKILL in the middle of a write left: what is written next begins a line.

    Nobody acted on it, as whoever writes goes on only after the whole line.
    """
    with os.fdopen(file, "rb", closefd=False) as diary:
        os.ftruncate(file, diary.read().rfind(b"\n") + 1)


def read(path: Path) -> list[Entry]:
    """Return a diary's entries; a last line that a kill cut short says nothing."""
    decoder = msgspec.json.Decoder(Entry)
    return [decoder.decode(line) for line in path.read_bytes().split(b"\n")[:-1]]


async def _open(url: str, **how: Any) -> Store:
    return Scribe(await open_store(url, **how), Path(os.environ[DIARY]), os.environ[NAME])


if __name__ == "__main__":
    server.open_store = _open
    main()
