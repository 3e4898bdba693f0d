"""What must have happened at least once in the whole proof: without it, it would have shown too little."""

from __future__ import annotations

MUST_HAPPEN = (
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
    "watcher dropped for slowness",
    "notification lost",
    "pool exhausted",
    "serialization failure retried",
    "SQLITE_BUSY retried",
    "MOVED seen",
    "ASK seen",
    "clock stepped back over a lease",
    "disk full",
    "drain with leases out",
    "two tenants with equal ids",
)
"""These very words are the keys of `Record.happened`; a proof may count others besides."""
