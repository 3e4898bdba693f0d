"""The store conformance suite: what every driver keeps, as tests.

Run it over a driver of yours from a test module with no more in it than this:

    from stepwell.testing.conformance import *

    @pytest.fixture
    async def open_store(tmp_path):
        factory = MyFactory(tmp_path)    # a StoreFactory
        yield factory
        await factory.close()

What the driver can't do stands in the factory's `excuses`, with the reason: cases by name, or the
optional groups of `groups.py`. pytest and pytest-asyncio must be there; the suite names no driver.
"""

from __future__ import annotations

import pytest

# Before the cases are imported: a failing assertion must show its values here too.
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{module}"
        for module in (
            "ask",
            "beside",
            "claims",
            "commits",
            "ended",
            "events",
            "families",
            "fidelity",
            "inputs",
            "itself",
            "keyed",
            "leases",
            "loads",
            "logs",
            "reads",
            "resends",
            "runs",
            "side_by_side",
            "tenants",
            "timers",
        )
    )
)

from stepwell.testing.conformance.beside import (  # noqa: E402 - after the rewriting
    TestDelete,
    TestLogs,
    TestPresence,
)
from stepwell.testing.conformance.claims import (  # noqa: E402 - after the rewriting
    TestHolds,
    TestReady,
)
from stepwell.testing.conformance.commits import (  # noqa: E402 - after the rewriting
    TestCommits,
    TestRows,
)
from stepwell.testing.conformance.ended import (  # noqa: E402 - after the rewriting
    TestEnded,
)
from stepwell.testing.conformance.events import (  # noqa: E402 - after the rewriting
    TestEvents,
    TestFeed,
)
from stepwell.testing.conformance.families import (  # noqa: E402 - after the rewriting
    TestFamilies,
    TestForks,
)
from stepwell.testing.conformance.fidelity import (  # noqa: E402 - after the rewriting
    TestDurability,
    TestFidelity,
)
from stepwell.testing.conformance.harness import (  # noqa: E402 - after the rewriting
    StoreFactory,
    excused,
    store,
)
from stepwell.testing.conformance.inputs import (  # noqa: E402 - after the rewriting
    TestInputs,
)
from stepwell.testing.conformance.itself import (  # noqa: E402 - after the rewriting
    TestHints,
    TestStore,
)
from stepwell.testing.conformance.keyed import (  # noqa: E402 - after the rewriting
    TestKeyed,
)
from stepwell.testing.conformance.leases import (  # noqa: E402 - after the rewriting
    TestFences,
    TestLeases,
)
from stepwell.testing.conformance.loads import (  # noqa: E402 - after the rewriting
    TestLoad,
    TestLoadSince,
)
from stepwell.testing.conformance.logs import (  # noqa: E402 - after the rewriting
    TestLogsRemoved,
)
from stepwell.testing.conformance.reads import (  # noqa: E402 - after the rewriting
    TestBeside,
    TestByKey,
    TestPages,
)
from stepwell.testing.conformance.resends import (  # noqa: E402 - after the rewriting
    TestAtomic,
    TestSentAgain,
)
from stepwell.testing.conformance.runs import (  # noqa: E402 - after the rewriting
    TestFilters,
    TestRuns,
)
from stepwell.testing.conformance.side_by_side import (  # noqa: E402 - after the rewriting
    TestSideBySide,
)
from stepwell.testing.conformance.tenants import (  # noqa: E402 - after the rewriting
    TestHostileNames,
    TestTenants,
)
from stepwell.testing.conformance.timers import (  # noqa: E402 - after the rewriting
    TestClocks,
    TestDue,
)

__all__ = [
    "StoreFactory",
    "TestAtomic",
    "TestBeside",
    "TestByKey",
    "TestClocks",
    "TestCommits",
    "TestDelete",
    "TestDue",
    "TestDurability",
    "TestEnded",
    "TestEvents",
    "TestFamilies",
    "TestFeed",
    "TestFences",
    "TestFidelity",
    "TestFilters",
    "TestForks",
    "TestHints",
    "TestHolds",
    "TestHostileNames",
    "TestInputs",
    "TestKeyed",
    "TestLeases",
    "TestLoad",
    "TestLoadSince",
    "TestLogs",
    "TestLogsRemoved",
    "TestPages",
    "TestPresence",
    "TestReady",
    "TestRows",
    "TestRuns",
    "TestSentAgain",
    "TestSideBySide",
    "TestStore",
    "TestTenants",
    "excused",
    "store",
]
