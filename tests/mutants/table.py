"""All mutants: bugs as the field has them, each at a port, each caught by invariants with a name.

None of them names a private part of the service: what lies between the ports may be written anew without
any change here. There is no switch for them in the service, either.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import NamedTuple

from tests.mutants import changes, others, scenarios, stores
from tests.mutants.changes import commits, events, loads
from tests.mutants.checks import (
    Caught,
    Check,
    Conforming,
    CrashPoints,
    Differential,
    PowerCuts,
    Scenario,
    Simulated,
)
from tests.simulation.simulator.ports import HONEST, Ports


class Mutant(NamedTuple):
    """A bug, and the proof that must catch it."""

    name: str
    port: str
    what: str
    """A sentence that says what is wrong."""
    invariants: tuple[str, ...]
    """Each of them catches it."""
    ports: Ports
    check: Check
    planted: Callable[[], AbstractContextManager[None]] = nullcontext
    """Has it in for the length of a block, where it stands at no port that is handed over."""

    def catch(self) -> dict[str, Caught]:
        """Play the check with the mutant in; returns what caught it, by invariant.

        Raises:
            Survived: an invariant did not catch it.
        """
        with self.planted():
            return {name: self.check.play(self.ports, name) for name in self.invariants}


def _advancing(change: others.Change) -> Callable[[], AbstractContextManager[None]]:
    return partial(others.advancing, change)


SIMULATED, SUITE, PROGRAMS = Simulated(), Conforming(), Differential()
STARVING = Scenario("one busy worker", scenarios.no_run_starves)
TRIMMED = Scenario("a trimmed run", scenarios.old_cursor_is_refused)
STALLED = Scenario("a stalled watcher", scenarios.stalled_watcher_holds_one_page)
FAILED_SYNC = Scenario("failing fsync", scenarios.failed_sync_stops_the_store)

TABLE = (
    # --- what is committed ---
    Mutant(
        "fence-dropped",
        "store",
        "A commit is applied whatever leases it rests on.",
        ("S8",),
        Ports(driver=commits(changes.without_fences)),
        SUITE,
    ),
    Mutant(
        "acknowledged-before-commit",
        "store",
        "A worker is answered as soon as it is decided, before the store has it.",
        ("S3",),
        Ports(replica=stores.AcknowledgedEarly),
        SIMULATED,
    ),
    Mutant(
        "synchronous-normal",
        "disk",
        "SQLite is opened with `synchronous=NORMAL`, as most guides to WAL say.",
        ("S3",),
        HONEST,
        PowerCuts("NORMAL"),
    ),
    Mutant(
        "failed-fsync-ignored",
        "store",
        "A failed fsync is tried again: the kernel has dropped the pages, and the second one succeeds.",
        ("D3",),
        Ports(driver=stores.FailedSyncIgnored),
        FAILED_SYNC,
    ),
    Mutant(
        "version-not-compared",
        "store",
        "The last writer wins: a commit is written over whatever version the run has.",
        ("S2",),
        Ports(driver=stores.VersionNotCompared),
        SUITE,
    ),
    Mutant(
        "unknown-sent-anew",
        "store",
        "A commit whose outcome is unknown is sent again as a new one.",
        ("S4",),
        Ports(replica=stores.SentAnewWhenUnknown),
        SIMULATED,
    ),
    Mutant(
        "refused-tried-again",
        "store",
        "A driver tries a refused commit again by itself, once there is a place for it.",
        ("S5",),
        Ports(driver=stores.RefusedTriedAgain),
        SUITE,
    ),
    Mutant(
        "torn-load",
        "store",
        "A run is loaded with the rows of two versions.",
        ("S1",),
        Ports(driver=stores.TornLoad),
        SIMULATED,
    ),
    Mutant(
        "request-not-kept",
        "store",
        "Requests are known to the replica that carried them out, and not kept with the run.",
        ("S16",),
        Ports(driver=commits(changes.without_request)),
        SIMULATED,
    ),
    Mutant(
        "event-misses-a-field",
        "store",
        "A field of the run is written to its row and is missing in the event.",
        ("S20",),
        Ports(replica=commits(changes.without_a_field_of_the_event)),
        SIMULATED,
    ),
    # --- leases, attempts and results ---
    Mutant(
        "stale-result-accepted",
        "advance",
        "An outcome is matched by its step and not by its lease: any report is believed.",
        ("S8",),
        HONEST,
        SIMULATED,
        _advancing(others.believing_any_report),
    ),
    Mutant(
        "lease-never-expires",
        "store",
        "A claim returns timers and forgets the leases that have run out.",
        ("L2",),
        Ports(driver=changes.claims(changes.without_expired_leases)),
        SIMULATED,
    ),
    Mutant(
        "token-counter-restarts",
        "runtime",
        "Lease tokens are made of a counter, which starts over with the process.",
        ("S9",),
        Ports(runtime=others.counted_tokens),
        SIMULATED,
    ),
    Mutant(
        "waiting-step-not-closed",
        "store",
        "Closing a run or a task forgets the attempts that wait for a worker.",
        ("S10", "S14"),
        Ports(replica=stores.OpenThoughClosed),
        SIMULATED,
    ),
    Mutant(
        "attempts-forgotten",
        "store",
        "How many attempts were spent is lost when a run is loaded.",
        ("S12",),
        Ports(replica=loads(changes.with_attempts_unspent)),
        SIMULATED,
    ),
    Mutant(
        "lost-attempts-are-free",
        "advance",
        "An expired lease is taken for one that never reached its worker, so poison goes on for ever.",
        ("S13",),
        HONEST,
        SIMULATED,
        _advancing(others.releasing_lost_leases),
    ),
    Mutant(
        "results-misplaced",
        "worker stream",
        "Results are sent in the order in which they came, and not in that of the tasks they are of.",
        ("S7",),
        Ports(worker=others.results_misplaced),
        SIMULATED,
    ),
    # --- order, limits and ends ---
    Mutant(
        "plan-order-ignored",
        "store",
        "A plan is loaded without the first dependency of each task.",
        ("S11",),
        Ports(replica=loads(changes.with_looser_plans)),
        SIMULATED,
    ),
    Mutant(
        "limits-forgotten",
        "store",
        "A replica that takes over a run knows neither its budget nor its parallel limit.",
        ("S11", "S17"),
        Ports(replica=stores.LimitsForgotten),
        SIMULATED,
    ),
    Mutant(
        "completed-task-retried",
        "advance",
        "A person may retry any settled task, and nobody thought of the completed ones.",
        ("S6",),
        HONEST,
        SIMULATED,
        _advancing(others.retrying_what_is_done),
    ),
    Mutant(
        "command-after-the-end",
        "advance",
        "A command forgets to check that the run is over, and adds an event behind the last one.",
        ("S15",),
        HONEST,
        SIMULATED,
        _advancing(others.commanding_what_has_ended),
    ),
    Mutant(
        "resume-of-a-live-run",
        "advance",
        "A resume is carried out at any time, and gives a healthy run a fresh allowance.",
        ("S19",),
        HONEST,
        SIMULATED,
        _advancing(others.resuming_what_goes_on),
    ),
    Mutant(
        "stages-not-kept",
        "store",
        "Which stages a run has is lost when another replica goes on with it.",
        ("S18",),
        Ports(driver=loads(changes.without_stages)),
        CrashPoints(),
    ),
    # --- liveness and time ---
    Mutant(
        "offer-not-written",
        "store",
        "A commit forgets the last step that it makes ready.",
        ("L1",),
        Ports(replica=commits(changes.without_an_offer)),
        SIMULATED,
    ),
    Mutant(
        "claim-only-when-notified",
        "store",
        "A dispatcher trusts its notifications: after a lost one it looks for nothing.",
        ("L3",),
        Ports(replica=stores.ClaimsOnlyWhenNotified),
        SIMULATED,
    ),
    Mutant(
        "monotonic-clock-stopped",
        "runtime",
        "Time that has passed is never noticed, so a busy run keeps its worker for ever.",
        ("L4",),
        Ports(runtime=others.stopped_clock),
        STARVING,
    ),
    Mutant(
        "deadlines-by-the-wall-clock",
        "store",
        "Deadlines are compared with a wall clock that somebody may set.",
        ("C1", "C2"),
        Ports(driver=stores.WallClock),
        SUITE,
    ),
    # --- events and watching ---
    Mutant(
        "feed-by-number",
        "store",
        "The feed is read by `number > cursor`: a transaction that ends late appears behind its reader.",
        ("E1", "E3"),
        Ports(driver=stores.FeedByNumber),
        SUITE,
    ),
    Mutant(
        "stamped-when-read",
        "store",
        "An event gets the time at which a replica reads it, so two watchers see two events.",
        ("E2",),
        Ports(replica=events(changes.stamped_when_read)),
        SIMULATED,
    ),
    Mutant(
        "reconnect-repeats",
        "store",
        "A watch that goes on after an event begins with that event.",
        ("E3",),
        Ports(replica=stores.RepeatsAnEvent),
        SIMULATED,
    ),
    Mutant(
        "event-before-its-commit",
        "store",
        "Events go to the watchers of a replica from its memory, and to the store a moment later.",
        ("E4",),
        Ports(replica=stores.PublishedEarly),
        SIMULATED,
    ),
    Mutant(
        "future-cursor-accepted",
        "store",
        "A cursor that no event has reached is accepted, and its owner misses what comes until then.",
        ("E5",),
        Ports(replica=events(changes.reaching_any_cursor)),
        SIMULATED,
    ),
    Mutant(
        "old-cursor-accepted",
        "store",
        "A page does not say that the events before it were removed, so a watcher skips them unknowing.",
        ("E6",),
        Ports(driver=events(changes.hiding_what_was_removed)),
        TRIMMED,
    ),
    Mutant(
        "progress-overtakes",
        "watcher's stream",
        "Progress names the run's last event, and not the last one that was sent on this stream.",
        ("E7",),
        Ports(watch=others.overtaking_progress),
        SIMULATED,
    ),
    Mutant(
        "page-splits-a-commit",
        "store",
        "A page ends after so many events, wherever in a commit that is.",
        ("E8",),
        Ports(replica=events(changes.one_event_a_page)),
        SIMULATED,
    ),
    Mutant(
        "watch-reads-ahead",
        "watcher's stream",
        "All events are read for a watcher, whether or not it takes them.",
        ("E9",),
        Ports(watch=others.read_ahead),
        STALLED,
    ),
    Mutant(
        "watch-only-when-notified",
        "store",
        "A watcher waits for a notification and for nothing else; a lost one is never made up for.",
        ("E10",),
        Ports(replica=stores.ReadsOnlyWhenNotified),
        SIMULATED,
    ),
    Mutant(
        "never-unsubscribed",
        "store",
        "A subscriber is notified for ever, although it has unsubscribed.",
        ("R1",),
        Ports(driver=stores.NeverUnsubscribes),
        SUITE,
    ),
    # --- tenants and drivers ---
    Mutant(
        "tenant-forgotten",
        "store",
        "The tenant is missing in a read by id, in a list and in a claim.",
        ("T1", "T2", "T3"),
        Ports(driver=stores.TenantForgotten),
        SUITE,
    ),
    Mutant(
        "names-joined",
        "store",
        "A run's key is its tenant and its id with a colon between, and either may hold a colon.",
        ("T4",),
        Ports(driver=stores.NamesJoined),
        SUITE,
    ),
    Mutant(
        "empty-bytes-are-none",
        "store",
        "`if data` stands where `if data is not None` belongs.",
        ("D2",),
        Ports(driver=stores.EmptyIsNone),
        SUITE,
    ),
    Mutant(
        "delta-misses-inputs",
        "store",
        "A load since a version leaves out which questions were answered.",
        ("D1",),
        Ports(driver=loads(changes.without_inputs_of_a_delta)),
        PROGRAMS,
    ),
)
BY_NAME = {mutant.name: mutant for mutant in TABLE}

WITHOUT = {
    "L5": "A stuck transaction is another program's: there is no port of ours at which to stand.",
    "C3": "It is what E1 and S2 say with clocks that lie: the simulator plays those with stepped clocks.",
    "T5": "It is a bound on time, measured and not caught.",
    "D4": "SQLite itself takes a transaction back that finds the disk full; the proof fills one.",
    "R2": "What a drain may lose is what an acknowledgement before the commit loses: S3.",
}
"""Invariants that no mutant is about, with the reason."""
