"""Rare things that a whole proof must have met at least once: without them it would have shown too little.

The proof that meets one names it in its mark, `proof(meets=["disk full"])`: a share of the proofs
that has this test must meet it, too. These very words are the keys of `Record.happened`; a proof
may also count others.
"""

from __future__ import annotations

SIMULATED = (
    "stale result refused",
    "unknown commit that was applied",
    "unknown commit that was not applied",
    "commit_id seen again",
    "conflict won by each of two replicas",
    "lease expired with a live worker",
    "lease expired with a dead worker",
    "cancel during a lease",
    "cancel during reflection",
    "cancel after the last task",
    "resume of a resumed run",
    "poison quarantine",
    "two replicas scanned one orphan",
    "watcher reconnected on another replica in mid-batch",
    "notification lost",
    "clock stepped back over a lease",
    "drain with leases out",
    "two tenants with equal ids",
)
"""A tenth of the simulator's seeds meets all of these."""
MUST_HAPPEN = (
    *SIMULATED,
    "watcher dropped for slowness",
    "pool exhausted",
    "serialization failure retried",
    "SQLITE_BUSY retried",
    "MOVED seen",
    "ASK seen",
    "disk full",
)
