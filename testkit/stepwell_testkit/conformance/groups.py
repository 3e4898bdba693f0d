"""The groups of cases: mandatory ones, and those that a driver may excuse by name.

A group is a part of the contract with the cases that test it. The executor needs the mandatory
groups. An optional group is excused by its name, with a reason, in `StoreFactory.excuses`; its
methods must still exist and do what `without` says.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple


class Group(NamedTuple):
    """A part of the contract."""

    classes: tuple[str, ...]
    """The suite's classes with its cases."""
    without: str = ""
    """The behaviour of a driver without it, and what its users miss; empty: mandatory."""


GROUPS: Mapping[str, Group] = {
    "commits": Group(("TestCommits", "TestRows", "TestForks", "TestSentAgain", "TestAtomic")),
    "claims": Group(("TestReady", "TestHolds")),
    "leases": Group(("TestFences", "TestLeases")),
    "time": Group(("TestDue", "TestClocks")),
    "loads": Group(("TestLoad", "TestLoadSince")),
    "reads": Group(("TestByKey", "TestPages", "TestCheckpoints", "TestDuringWrites")),
    "questions": Group(("TestQuestions",)),
    "keys": Group(("TestReservations",)),
    "events": Group(("TestEvents",)),
    "runs": Group(("TestRuns",)),
    "fidelity": Group(("TestFidelity", "TestDurability")),
    "tenants": Group(("TestTenants", "TestHostileNames")),
    "store": Group(("TestStore",)),
    "programs": Group(("TestPrograms",)),
    "filters": Group(
        ("TestFilters",),
        "`page` raises StoreRefused for a RunQuery with more than a tenant; ListRuns shows all"
        " runs or none.",
    ),
    "delete": Group(
        ("TestDelete", "TestForksAndDelete"),
        "`delete_run` raises StoreRefused; DeleteRun fails, and a run is kept for ever.",
    ),
    "feed": Group(
        ("TestFeed",),
        "`page` raises StoreRefused for a FeedQuery; WatchRuns fails, and each run can still be watched.",
    ),
    "logs": Group(
        ("TestLogs", "TestLogsRemoved"),
        "`append_logs`, and `page` for a LogQuery, raise StoreRefused, `remove_logs` returns 0; what"
        " workers write is not kept.",
    ),
    "journal": Group(
        (
            "TestJournalWrites",
            "TestJournalRaces",
            "TestJournalTotals",
            "TestCommitEntries",
            "TestJournals",
        ),
        "`write_journal`, and `page` for a JournalQuery, raise StoreRefused; calls within a step fail, and steps"
        " that make none go on as ever.",
    ),
    "retention": Group(
        ("TestEnded",),
        "`page` raises StoreRefused for an EndedQuery; PurgeRuns fails, and nothing is removed by age.",
    ),
    "presence": Group(
        ("TestPresence",),
        "`put_presence` does nothing, `page` has nobody for a PresenceQuery; a run that waits for a"
        " busy worker is shown as one without a worker, and health says that a server is ready whatever"
        " its store can.",
    ),
    "hints": Group(
        ("TestHints",),
        "`subscribe` never calls and returns what does nothing; what another replica did is seen"
        " when the poll interval is over.",
    ),
}

ALSO: Mapping[str, tuple[str, ...]] = {
    "test_deleted_run_has_no_checkpoint": ("delete",),
    "test_a_deleted_run_hides_no_other_from_the_feed": ("delete",),
    "test_E1_a_deletion_is_named_once_after_the_runs_commits": ("delete",),
    "test_S3_logs_are_there_after_a_restart": ("logs",),
    "test_T3_a_log_under_another_tenant_is_dropped": ("logs",),
    "test_an_ended_run_that_was_deleted_is_not_found": ("delete",),
    "test_T3_deleting_under_another_tenant_deletes_nothing": ("delete",),
    "test_deleted_run_leaves_its_keys_to_nobody": ("delete",),
    "test_question_requests_of_a_deleted_run_are_gone": ("delete",),
    "test_lines_of_a_deleted_run_are_not_counted_by_a_purge": ("delete",),
    "test_deleted_run_has_no_journal": ("delete",),
    "test_ended_run_is_found_once_its_forks_are_gone": ("delete",),
    "test_J4_run_created_anew_under_a_deleted_id_has_no_journal": ("delete",),
    "test_J4_record_during_a_deletion_writes_before_it_or_not_at_all": ("delete",),
}
"""Cases that also need other optional groups."""

OPTIONAL = tuple(name for name, group in GROUPS.items() if group.without)
MANDATORY = tuple(name for name, group in GROUPS.items() if not group.without)

_BY_CLASS = {name: group for group, part in GROUPS.items() for name in part.classes}


def needed(suite_class: str, case: str) -> tuple[str, ...]:
    """Return the group of a case, and the other groups that it needs."""
    return (_BY_CLASS[suite_class], *ALSO.get(case, ()))


def excuse_of(suite_class: str, case: str, excuses: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the excuse of a case (its own name, or an optional group's) with the reason, or None."""
    for name in (case, *needed(suite_class, case)):
        if name in excuses and name not in MANDATORY:
            return name, excuses[name]
    return None


def misnamed(excuses: Mapping[str, str], cases: Collection[str]) -> list[str]:
    """Return the mistakes in a driver's excuses, one line each."""
    lines: list[str] = []
    for name, reason in excuses.items():
        if name in MANDATORY:
            lines.append(f"{name}: no executor can do without this group; excuse single cases")
        elif name not in OPTIONAL and name not in cases:
            lines.append(f"{name}: there is no such case and no such optional group")
        if not reason.strip():
            lines.append(f"{name}: gives no reason")
    return lines
