"""A worker that is as good as dead, without a process of its own."""

from __future__ import annotations

from stepwell_client import Worker


def go_silent(worker: Worker) -> None:
    """Have it send no heartbeats and take nothing more: its leases end by themselves."""
    worker._ledger.draining = True
    worker._beats.stop()
