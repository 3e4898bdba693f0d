"""`journal:///path/to/file`: a store in one append-only file, for one process."""

from __future__ import annotations

import asyncio
from pathlib import Path

from stepwell.core.port import Runtime, Store
from stepwell.core.records.errors import StoreRefused
from stepwell_journal.journal import Journal
from stepwell_journal.state import State, decoded
from stepwell_journal.store import JournalStore


async def open_store(url: str, *, runtime: Runtime) -> Store:
    """Open the file that the URL names; a missing one is made.

    Raises:
        StoreRefused: the URL, the file or its lock is not as it must be.
    """
    path = Path(url.removeprefix("journal://"))
    if not path.is_absolute() or any(mark in url for mark in "?#"):
        raise StoreRefused("a journal is opened as journal:///path/to/file, with no more")
    # A large file takes seconds to read, and this event loop may serve others.
    return await asyncio.to_thread(_opened, path, runtime)


def _opened(path: Path, runtime: Runtime) -> Store:
    journal = Journal(path, runtime)
    state = State()
    try:
        for body in journal.replay():
            state.apply(decoded(body))
    except BaseException:
        journal.close()
        raise
    return JournalStore(journal, state, runtime)
