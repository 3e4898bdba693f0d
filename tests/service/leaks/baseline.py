"""The resources of a process, compared when it is quiet: tasks, threads, descriptors, connections, memory."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from stepwell.rpc.server import Server

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+")
POOLED = frozenset(
    {
        "stepwell-redis-read",
        "stepwell-redis-watch",
        "stepwell-redis-flush",
        "stepwell-postgres-watch",
    }
)
"""Tasks of a pool's connections: what bounds them are the connections, which are counted by themselves."""
SLACK_FDS = 4
SLACK_THREADS = 4
"""gRPC's own pools of pollers and timers grow and shrink by themselves; a leak of calls is thousands."""


class Held(NamedTuple):
    """The resources held at one moment."""

    tasks: Counter[str]
    """Tasks by name, ids left out."""
    fds: int
    threads: int
    connections: int
    """As the database counts them; 0: there is none to ask."""
    streams: int
    """Open ones, by the server's own gauges."""
    workers: int
    subscriptions: int
    """Watchers that wait for a hint."""
    rss_bytes: int

    def excess(self, before: Held) -> list[str]:
        """Return what is held that wasn't before; how much memory it is, is not looked at here."""
        found = [
            f"tasks {name!r}: {count}, were {before.tasks[name]}"
            for name, count in self.tasks.items()
            if count > before.tasks[name]
        ]
        for name, slack in (
            *(("fds", SLACK_FDS), ("threads", SLACK_THREADS), ("connections", 0)),
            *(("streams", 0), ("workers", 0), ("subscriptions", 0)),
        ):
            now, was = getattr(self, name), getattr(before, name)
            if now > was + slack:
                found.append(f"{name}: {now}, were {was}")
        return found


def held(server: Server, connections: Callable[[], int]) -> Held:
    """Look at this process, its server, and what the database says of it."""
    gc.collect()
    me = asyncio.current_task()
    tasks = [task.get_name() for task in asyncio.all_tasks() if task is not me]
    return Held(
        tasks=Counter(_ID.sub("…", name) for name in tasks if name not in POOLED),
        fds=sum(1 for _ in Path("/proc/self/fd").iterdir()),
        threads=threading.active_count(),
        connections=connections(),
        streams=_streams(server),
        workers=len(server.parts.executor.connected),
        subscriptions=server.parts.notifier.subscribers,
        rss_bytes=_rss_bytes(),
    )


def _streams(server: Server) -> int:
    found = 0.0
    for metric in server.metrics.registry.collect():
        if metric.name == "stepwell_rpc_streams":
            found += sum(sample.value for sample in metric.samples)
    return int(found)


def _rss_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
