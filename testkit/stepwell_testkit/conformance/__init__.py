"""The store conformance suite: tests of the contract that every driver keeps.

Run it over your driver from a test module like this:

    from stepwell_testkit.conformance import *

    @pytest.fixture
    async def open_store(tmp_path):
        factory = MyFactory(tmp_path)    # a StoreFactory
        yield factory
        await factory.close()

The factory's `excuses` list what the driver can't do, with reasons: cases by name, or optional
groups of `groups.py`. The suite needs pytest and pytest-asyncio, and names no driver.
"""

from __future__ import annotations

from pkgutil import iter_modules

import pytest

# Before the cases are imported, so that failing assertions show their values here, too.
pytest.register_assert_rewrite(*(f"{__name__}.{one.name}" for one in iter_modules(__path__)))

from stepwell_testkit.conformance.checkpoints import TestCheckpoints  # noqa: E402 - after the rewriting
from stepwell_testkit.conformance.claims import TestHolds, TestReady  # noqa: E402 - after the rewriting
from stepwell_testkit.conformance.commits import TestCommits, TestRows  # noqa: E402 - after the rewriting
from stepwell_testkit.conformance.ended import TestEnded  # noqa: E402 - after the rewriting
from stepwell_testkit.conformance.events import TestEvents, TestFeed  # noqa: E402 - after the rewriting
from stepwell_testkit.conformance.fidelity import TestDurability, TestFidelity  # noqa: E402 - after the rewriting
from stepwell_testkit.conformance.forks import TestForks, TestForksAndDelete  # noqa: E402 - after the rewriting
from stepwell_testkit.conformance.harness import StoreFactory, excused, store  # noqa: E402 - after the rewriting
from stepwell_testkit.conformance.itself import TestHints, TestStore  # noqa: E402 - after the rewriting
from stepwell_testkit.conformance.journal_commits import TestCommitEntries, TestJournalRaces  # noqa: E402 - after the rewriting
from stepwell_testkit.conformance.journal_reads import TestJournals, TestJournalTotals  # noqa: E402 - after the rewriting
from stepwell_testkit.conformance.journal_writes import TestJournalWrites  # noqa: E402 - after the rewriting
from stepwell_testkit.conformance.leases import TestFences, TestLeases  # noqa: E402 - after the rewriting
from stepwell_testkit.conformance.loads import TestLoad, TestLoadSince  # noqa: E402 - after the rewriting
from stepwell_testkit.conformance.logs import TestLogsRemoved  # noqa: E402 - after the rewriting
from stepwell_testkit.conformance.operations import TestDelete, TestLogs, TestPresence  # noqa: E402 - after the rewriting
from stepwell_testkit.conformance.programs import TestPrograms  # noqa: E402 - after the rewriting
from stepwell_testkit.conformance.questions import TestQuestions  # noqa: E402 - after the rewriting
from stepwell_testkit.conformance.reads import TestByKey, TestDuringWrites, TestPages  # noqa: E402 - after the rewriting
from stepwell_testkit.conformance.resends import TestAtomic, TestSentAgain  # noqa: E402 - after the rewriting
from stepwell_testkit.conformance.reservations import TestReservations  # noqa: E402 - after the rewriting
from stepwell_testkit.conformance.runs import TestFilters, TestRuns  # noqa: E402 - after the rewriting
from stepwell_testkit.conformance.tenants import TestHostileNames, TestTenants  # noqa: E402 - after the rewriting
from stepwell_testkit.conformance.timers import TestClocks, TestDue  # noqa: E402 - after the rewriting

__all__ = [
    "StoreFactory",
    "TestAtomic",
    "TestByKey",
    "TestCheckpoints",
    "TestClocks",
    "TestCommitEntries",
    "TestCommits",
    "TestDelete",
    "TestDue",
    "TestDurability",
    "TestDuringWrites",
    "TestEnded",
    "TestEvents",
    "TestFeed",
    "TestFences",
    "TestFidelity",
    "TestFilters",
    "TestForks",
    "TestForksAndDelete",
    "TestHints",
    "TestHolds",
    "TestHostileNames",
    "TestJournalRaces",
    "TestJournalTotals",
    "TestJournalWrites",
    "TestJournals",
    "TestLeases",
    "TestLoad",
    "TestLoadSince",
    "TestLogs",
    "TestLogsRemoved",
    "TestPages",
    "TestPresence",
    "TestPrograms",
    "TestQuestions",
    "TestReady",
    "TestReservations",
    "TestRows",
    "TestRuns",
    "TestSentAgain",
    "TestStore",
    "TestTenants",
    "excused",
    "store",
]
