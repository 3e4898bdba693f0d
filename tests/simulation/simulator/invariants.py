"""All invariants of RELIABILITY.md by name: what checks each of them here, or which proof has it instead.

`holds` counts every check under one of these names. A run of many seeds in which one that is played was
never checked proves less than it claims, so it is red.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Invariant(NamedTuple):
    """One line of the table."""

    name: str
    promise: str
    checked_by: str = ""
    """The place that checks it in a simulation; empty: it can't be met in one process."""
    elsewhere: str = ""
    """The other proofs of it: the only ones where nothing here checks it."""


TABLE = (
    Invariant(
        "S1",
        "the rows of one commit appear together",
        "watcher: whole runs are loaded while others write",
        "tests/contract/conformance and tests/chaos: torn reads across processes",
    ),
    Invariant("S2", "versions are 1..n, no base is used twice", "rules, at every commit; the feed"),
    Invariant(
        "S3",
        "what was acknowledged is in every later read",
        "ledger and client, at every answer; audit, at the end",
        "tests/chaos: kills and power cuts",
    ),
    Invariant("S4", "an unknown commit is applied once or never", "ledger, at every repetition"),
    Invariant("S5", "what was refused for certain never appears", "ledger, at every commit"),
    Invariant("S6", "a completed task is leased no more", "rules, at every lease of a task"),
    Invariant("S7", "one accepted result, with its worker's bytes", "worker: inputs; audit"),
    Invariant("S8", "a lost lease changes nothing", "ledger, at every answer"),
    Invariant("S9", "attempts and tokens are never used again", "rules and ledger"),
    Invariant("S10", "one live lease for a step", "rules, at every commit"),
    Invariant("S11", "order of dependencies, and max_parallel", "rules, at every lease and commit"),
    Invariant("S12", "attempts stay within their allowance", "rules, at every end of an attempt"),
    Invariant("S13", "poison is quarantined", "audit: what became of steps that kill workers"),
    Invariant("S14", "a cancel closes everything", "rules, at every end; ledger, at late outcomes"),
    Invariant("S15", "ends are ends", "rules, at every commit"),
    Invariant("S16", "start, resume, cancel and answer are idempotent", "client, at repetitions"),
    Invariant("S17", "plans, reflections and budgets are counted right", "rules, at every commit"),
    Invariant(
        "S18",
        "the end is that of the uninterrupted run",
        "audit: the bytes of every result are those that the plan alone gives; one execution each",
        "tests/simulation/test_crash_points.py: every boundary, every driver",
    ),
    Invariant("S19", "a resume repeats nothing that is done", "rules, at every resume"),
    Invariant("S20", "events folded give the rows", "audit, at three versions of every run"),
    Invariant("E1", "event numbers are 1..n", "rules, at every event; audit"),
    Invariant("E2", "every watcher sees the same", "watcher, at every event"),
    Invariant("E3", "a watch goes on where it was", "watcher, at every event"),
    Invariant("E4", "what is seen is committed", "watcher, at every event, and on other replicas"),
    Invariant("E5", "a cursor from the future is refused", "watcher, now and then"),
    Invariant(
        "E6",
        "a cursor that is too old is refused with the oldest number",
        elsewhere="tests/chaos/test_purged.py",
    ),
    Invariant("E7", "progress never overtakes events", "watcher, at every batch"),
    Invariant("E8", "a commit's events are not split", "rules, watcher and audit"),
    Invariant(
        "E9",
        "a stalled watcher costs few bytes, and nobody time",
        elsewhere="tests/chaos/test_stalled.py",
    ),
    Invariant(
        "E10",
        "without hints the lag is a poll and a second",
        "watcher, at every event once faults have stopped",
        "tests/chaos/test_replicas.py: by the real clock",
    ),
    Invariant("L1", "every run ends or says what it waits for", "rules; world, while runs settle"),
    Invariant("L2", "no step is left behind", "world, while runs settle"),
    Invariant("L3", "no wake-up is lost", "world, while runs settle; a loop that stalls or spins"),
    Invariant("L4", "nobody starves", "world: a ready step is leased in bounded time"),
    Invariant("L5", "a stuck transaction stops no reader", elsewhere="tests/chaos/test_stuck.py"),
    Invariant("C1", "wrong clocks never accept twice", "ledger, where clocks are skewed or set"),
    Invariant("C2", "nothing is due early by the store's time", "ledger, at every claim"),
    Invariant("C3", "no wall clock decides an order", "rules and the feed, where clocks are set"),
    Invariant("T3", "no step of another tenant is offered or touched", "worker and ledger"),
    Invariant("CREDITS", "no worker gets more steps than it granted", "worker and ledger"),
    Invariant("OWN", "a step receives its own task's messages", "conversation, at every attempt"),
    Invariant("ONCE", "a step's messages are kept once", "conversation, at the end"),
    Invariant("DEFECT", "nothing breaks by an error nobody expected", "simulate, at the end"),
)
"""Below the three families, what the simulator checks besides."""

KNOWN = {one.name: one for one in TABLE}


def unchecked(checks: Mapping[str, int]) -> list[str]:
    """Return the invariants that should have been checked and never were."""
    return [one.name for one in TABLE if one.checked_by and not checks.get(one.name)]
