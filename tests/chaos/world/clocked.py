"""Clusters whose store, replicas and workers each live by a clock of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.forkserver import ensure_running
from pathlib import Path
from unittest import mock

from tests.chaos.world.cluster import NAMES, Cluster
from tests.chaos.world.faked import Clock, child_of
from tests.chaos.world.stores import Shared
from tests.support.backends import postgres as postgres_backend
from tests.support.backends import redis as redis_backend
from tests.support.backends.child import drop_folder, new_folder

STORE = "store"
WORKERS = ("w1", "w2", "w3")


@contextmanager
def living_by(clock: Clock) -> Iterator[None]:
    """Have every program that is made in the block live by this clock."""
    # It lives by the true time, as all others do that come from it.
    ensure_running()
    with mock.patch.dict(os.environ, clock.variables):
        yield


@contextmanager
def _served(kind: str, clock: Clock) -> Iterator[str]:
    """The address of a database whose server lives by this clock."""
    if kind == "postgres":
        with (
            mock.patch.object(postgres_backend, "Child", child_of(clock)),
            postgres_backend.Postgres(18, fsync=False) as server,
        ):
            yield server.url(server.new_database(), sslmode="disable")
    else:
        with (
            mock.patch.object(redis_backend, "Child", child_of(clock)),
            redis_backend.Redis() as server,
        ):
            yield server.url()


class Timepieces:
    """The clocks of one cluster, by whose they are."""

    def __init__(self, folder: Path) -> None:
        self.all = {name: Clock(folder, name) for name in (STORE, *NAMES, *WORKERS)}

    def __getitem__(self, name: str) -> Clock:
        return self.all[name]

    def set_right(self) -> None:
        """All of them tell the true time from now on."""
        for clock in self.all.values():
            clock.set(0.0)


@contextmanager
def clocked_cluster(kind: str, folder: Path) -> Iterator[tuple[Cluster, Timepieces]]:
    """Return a cluster of which nothing is started but the store, and its clocks."""
    # Processes of other users look at it, as Postgres' is.
    place = new_folder("clocks")
    times = Timepieces(place)
    try:
        with _served(kind, times[STORE]) as url:
            cluster = Cluster(folder, Shared(url))
            try:
                yield cluster, times
            finally:
                cluster.close()
    finally:
        drop_folder(place)


async def start_by(cluster: Cluster, times: Timepieces, **environment: str) -> None:
    """Start all replicas and their workers, each by its own clock."""
    for name in NAMES:
        await cluster.start(name, **environment, **times[name].variables)
    for worker, home in zip(WORKERS, NAMES, strict=True):
        with living_by(times[worker]):
            await cluster.work(worker, home)
    await cluster.working(*WORKERS)
