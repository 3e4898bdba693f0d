"""The workers of a run's steps. No event tells of heartbeats, nor of a worker that is gone: the server is asked for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stepwell.cli.view.json_output import json_text, json_value
from stepwell.cli.view.text import one_line
from stepwell_client import ConnectedWorker, ExecutionStatus, RunView
from stepwell_client.records import HeldStep

ASK_EVERY_S = 2.0


def at_work(view: RunView) -> dict[str, str]:
    """Return the workers of the attempts at work, by execution id."""
    return {
        one.id: one.worker_id
        for one in view.executions.values()
        if one.status == ExecutionStatus.LEASED
    }


class Holders:
    """The answers of the server: how far attempts are, and which have no worker that is connected."""

    def __init__(self) -> None:
        self.progress: Mapping[str, str] = {}
        """The last report of each attempt's heartbeats, in one line, by execution id."""
        self.gone: Mapping[str, int] = {}
        """The moment at which the worker of an attempt was missed first, by execution id."""

    def take(
        self, asked_for: Mapping[str, str], workers: Iterable[ConnectedWorker], now_us: int
    ) -> None:
        """Take in the workers that hold steps of the run, listed after these attempts were at work."""
        connected, progress = set[str](), dict[str, str]()
        for worker in workers:
            connected.add(worker.worker_id)
            progress |= {one.execution_id: _words(one) for one in worker.held}
        self.progress = progress
        self.gone = {
            execution_id: self.gone.get(execution_id, now_us)
            for execution_id, worker_id in asked_for.items()
            if worker_id not in connected
        }


def _words(held: HeldStep) -> str:
    if held.progress is None:
        return ""
    return one_line(json_text(json_value(held.progress)))
