"""All mutants: bugs as the field has them, each at a port, each caught by invariants with a name.

A bug that more than one proof finds is here only where its invariant has no other: the programs of
calls, and cases of the conformance suite, find most of what can be wrong in a driver.

No mutant names a private part of the service, so what lies between the ports can be rewritten
without a change here. The service has no switch for mutants.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from tests.mutants import changes, checks, journals, others, stores
from tests.mutants.changes import claims, commits, events, loads
from tests.mutants.checks import CRASHES, PROGRAMS, SIMULATED, SUITE, Caught, Check
from tests.simulation.simulator.ports import Ports

PORTS = {
    "driver": "store",
    "replica": "store",
    "runtime": "runtime",
    "worker": "worker stream",
    "watch": "watcher's stream",
}
"""Maps a field of `Ports` to the port's name; a mutant of `advance` or of the disk is planted."""


class Mutant(NamedTuple):
    """A bug, and the proof that must catch it."""

    name: str
    at: str
    """The field of `Ports`, or what it is planted in."""
    bug: Callable[..., Any]
    """Its docstring says what is wrong."""
    check: Check
    by: str
    """The invariants, each of which catches it."""

    @property
    def port(self) -> str:
        """The port's name on the page."""
        return PORTS.get(self.at, self.at)

    @property
    def what(self) -> str:
        """The sentence that says what is wrong."""
        return (self.bug.__doc__ or "").splitlines()[0]

    @property
    def invariants(self) -> tuple[str, ...]:
        """The names of the invariants."""
        return tuple(self.by.split())

    def planted(self) -> AbstractContextManager[None]:
        """Have it in for the length of a block, where it stands at no port that is handed over."""
        if self.at == "advance":
            return others.advancing(self.bug)
        return self.bug() if self.at == "disk" else nullcontext()

    def catch(self) -> dict[str, Caught]:
        """Play the check with the mutant in; returns what caught it, by invariant.

        Raises:
            Survived: an invariant did not catch it.
        """
        ports = Ports(**{self.at: self.bug} if self.at in PORTS else {})
        with self.planted():
            return {name: self.check.play(ports, name) for name in self.invariants}


TABLE = (
    # --- what is committed ---
    Mutant("acknowledged-before-commit", "replica", stores.AcknowledgedEarly, SIMULATED, "S3"),
    Mutant("synchronous-normal", "disk", checks.with_synchronous_normal, checks.POWER_CUTS, "S3"),
    Mutant("failed-fsync-ignored", "driver", stores.FailedSyncIgnored, checks.FAILED_SYNC, "D3"),
    Mutant("version-not-compared", "driver", stores.VersionNotCompared, SUITE, "S2"),
    Mutant("unknown-sent-anew", "replica", stores.SentAnewWhenUnknown, SIMULATED, "S4"),
    Mutant("refused-tried-again", "driver", stores.RefusedTriedAgain, SUITE, "S5"),
    Mutant("torn-load", "driver", stores.TornLoad, SIMULATED, "S1"),
    Mutant("request-not-kept", "driver", commits(changes.without_request), SIMULATED, "S16"),
    Mutant("caller-not-named", "replica", commits(changes.without_callers), SIMULATED, "A1"),
    Mutant("event-misses-a-field", "replica", commits(changes.without_a_field), SIMULATED, "S20"),
    Mutant("base-misses-a-task", "driver", commits(changes.with_smaller_bases), SIMULATED, "S20"),
    # --- leases, attempts and results ---
    Mutant("receipt-not-kept", "driver", commits(changes.without_receipts), SIMULATED, "S8"),
    Mutant("stale-result-accepted", "advance", others.believing_any_report, SIMULATED, "S8"),
    Mutant("lease-never-expires", "driver", claims(changes.without_expired), SIMULATED, "L2"),
    Mutant("token-counter-restarts", "runtime", others.CountedTokens, SIMULATED, "S9"),
    Mutant("waiting-step-not-closed", "replica", stores.OpenThoughClosed, SIMULATED, "S10 S14"),
    Mutant("attempts-forgotten", "replica", loads(changes.with_none_spent), SIMULATED, "S12"),
    Mutant("lost-attempts-are-free", "advance", others.releasing_lost_leases, SIMULATED, "S13"),
    Mutant("results-misplaced", "worker", others.ResultsMisplaced, SIMULATED, "S7"),
    # --- idempotency keys ---
    Mutant("key-not-reserved", "replica", stores.KeysNotReserved, SIMULATED, "K1"),
    Mutant("key-taken-early", "replica", stores.KeysTakenEarly, SIMULATED, "K1"),
    # --- journals ---
    Mutant(
        "entry-acknowledged-early", "replica", journals.EntriesAcknowledgedEarly, SIMULATED, "J1"
    ),
    Mutant("entries-misplaced", "replica", journals.EntriesMisplaced, SIMULATED, "J2"),
    Mutant("ends-forgotten", "replica", journals.EndsForgottenWithTheLease, SIMULATED, "J3"),
    Mutant("stale-entries-taken", "driver", journals.StaleEntriesTaken, SIMULATED, "J4"),
    Mutant("begins-forgotten", "replica", journals.BeginsForgottenWithTheLease, SIMULATED, "J5"),
    # --- letters, signals and child runs ---
    Mutant("letters-unwritten", "driver", commits(changes.without_letters), SIMULATED, "M1"),
    Mutant("letters-unread", "replica", journals.LettersUnread, SIMULATED, "M1"),
    Mutant("letter-taken-again", "advance", others.taking_letters_again, SIMULATED, "M2"),
    Mutant("signals-unwritten", "driver", commits(changes.without_signals), SIMULATED, "G1"),
    Mutant("signal-taken-twice", "driver", commits(changes.with_taken_signals), SIMULATED, "G2"),
    Mutant("signals-not-reflected-on", "advance", others.reflecting_on_nothing, SIMULATED, "G3"),
    Mutant("ends-not-kept", "replica", loads(changes.without_new_ends), SIMULATED, "W1"),
    Mutant("child-of-no-call", "replica", loads(changes.with_children_of_no_call), SIMULATED, "F1"),
    Mutant("usage-of-no-child", "advance", others.adding_no_usage, SIMULATED, "F2"),
    Mutant("children-left", "replica", loads(changes.with_children_left), SIMULATED, "F3"),
    Mutant(
        "pauses-not-followed", "replica", loads(changes.with_children_that_go_on), SIMULATED, "F4"
    ),
    # --- order, limits and ends ---
    Mutant("plan-order-ignored", "replica", loads(changes.with_looser_plans), SIMULATED, "S11"),
    Mutant("limits-forgotten", "replica", stores.LimitsForgotten, SIMULATED, "S11 S17"),
    Mutant("completed-task-retried", "advance", others.retrying_what_is_done, SIMULATED, "S6"),
    Mutant("command-after-the-end", "advance", others.commanding_the_ended, SIMULATED, "S15"),
    Mutant("resume-of-a-live-run", "advance", others.resuming_what_goes_on, SIMULATED, "S19"),
    Mutant("stages-not-kept", "driver", loads(changes.without_stages), CRASHES, "S18"),
    # --- liveness and time ---
    Mutant("offer-not-written", "replica", commits(changes.without_an_offer), SIMULATED, "L1"),
    Mutant("claim-only-when-notified", "replica", stores.ClaimsWhenNotified, SIMULATED, "L3"),
    Mutant("monotonic-clock-stopped", "runtime", others.StoppedClock, checks.STARVING, "L4"),
    Mutant("deadlines-by-the-wall-clock", "driver", stores.WallClock, SUITE, "C1 C2"),
    # --- events and watching ---
    Mutant("feed-by-number", "driver", stores.FeedByNumber, SUITE, "E1 E3"),
    Mutant("stamped-when-read", "replica", events(changes.stamped_when_read), SIMULATED, "E2"),
    Mutant("reconnect-repeats", "replica", stores.RepeatsAnEvent, SIMULATED, "E3"),
    Mutant("event-before-its-commit", "replica", stores.PublishedEarly, SIMULATED, "E4"),
    Mutant("future-cursor-accepted", "replica", events(changes.at_any_cursor), SIMULATED, "E5"),
    Mutant("old-cursor-accepted", "driver", events(changes.as_if_kept), checks.TRIMMED, "E6"),
    Mutant("progress-overtakes", "watch", others.overtaking_progress, SIMULATED, "E7"),
    Mutant("page-splits-a-commit", "replica", events(changes.one_event_a_page), SIMULATED, "E8"),
    Mutant("watch-reads-ahead", "watch", others.read_ahead, checks.STALLED, "E9"),
    Mutant("watch-only-when-notified", "replica", stores.ReadsWhenNotified, SIMULATED, "E10"),
    Mutant("never-unsubscribed", "driver", stores.NeverUnsubscribes, SUITE, "R1"),
    # --- tenants and drivers ---
    Mutant("tenant-forgotten", "driver", stores.TenantForgotten, SUITE, "T1 T2 T3"),
    Mutant("names-joined", "driver", stores.NamesJoined, SUITE, "T4"),
    Mutant("empty-bytes-are-none", "driver", stores.EmptyIsNone, SUITE, "D2"),
    Mutant("delta-misses-questions", "driver", loads(changes.without_questions), PROGRAMS, "D1"),
)
BY_NAME = {mutant.name: mutant for mutant in TABLE}

WITHOUT = {
    "M4": "A store that reads letters out of their order reads all entries so: a case of the suite finds it.",
    "M3": "What delivers a letter of no commit is what answers before the commit: S3.",
    "L5": "A stuck transaction is another program's: there is no port of ours at which to stand.",
    "C3": "It is what E1 and S2 say with clocks that lie: the simulator plays those with stepped clocks.",
    "T5": "It is a bound on time, measured and not caught.",
    "D4": "SQLite itself takes a transaction back that finds the disk full; the proof fills one.",
    "R2": "What a drain may lose is what an acknowledgement before the commit loses: S3.",
}
"""Invariants that no mutant is about, with the reason."""
