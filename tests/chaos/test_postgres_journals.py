"""Journals on a Postgres whose answers are lost."""

from __future__ import annotations

import pytest

from stepwell.core.records.errors import OutcomeUnknown
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.journal_writes import kept
from tests.chaos.load.chains import opened
from tests.support.backends.postgres import Postgres
from tests.support.backends.proxy import Proxy


@pytest.mark.parametrize("arrives", [True, False], ids=["arrives", "is lost"])
async def test_J1_recording_whose_connection_is_cut_is_unknown_until_it_is_sent_again(
    arrives: bool, own: Postgres, database: str
) -> None:
    async with (
        Proxy(own.port) as proxy,
        opened(own.url(database, port=proxy.port)) as store,
    ):
        await ask.must(store, b.created_leased())
        entry = b.entry("charge#1")
        cut = proxy.lose_reply_to if arrives else proxy.cut_before
        cut(b"charge#1")
        with pytest.raises(OutcomeUnknown):
            await store.write_journal([b.recording(entry)])
        await proxy.settled()
        assert await kept(store) == ([entry] if arrives else [])
        (answer,) = await store.write_journal([b.recording(entry)])
        assert [one.accepted for one in answer.written] == [True]
        assert answer.totals.entries == 1
        assert await kept(store) == [entry]
