"""SQLITE_BUSY: somebody else writes to the file, as a person with `sqlite3` can; the writer tries again."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from stepwell.core.records.states import Verdict
from stepwell.runtime import SystemRuntime
from stepwell_drivers.sql.sqlite import open_store, writer
from stepwell_drivers.sql.trouble import Trouble
from stepwell_testkit.conformance import builders as b
from tests.support.proofs.record import happened


@pytest.mark.proof(meets=["SQLITE_BUSY retried"])
async def test_a_commit_that_met_a_busy_file_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.db"
    store = await open_store(f"sqlite:///{path}?busy_timeout_ms=20", runtime=SystemRuntime())
    met, free = threading.Event(), threading.Event()
    translate = writer.trouble_of

    def listen(error: BaseException, *, committing: bool = False) -> Trouble:
        trouble = translate(error, committing=committing)
        if trouble.retry:
            met.set()
            # The writer's thread goes on only when the file is free, so that the second try is the last.
            assert free.wait(30)
        return trouble

    monkeypatch.setattr(writer, "trouble_of", listen)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        call = asyncio.create_task(store.commit([b.created()]))
        assert await asyncio.to_thread(met.wait, 30)
        other.execute("ROLLBACK")
        free.set()
        (result,) = await call
    assert result.verdict is Verdict.COMMITTED
    await store.close()
    happened("SQLITE_BUSY retried")
