"""The ports between the service and the simulated world: a mutant may stand at each."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import NamedTuple

from stepwell.core.port import Runtime, Store, WorkerPort
from stepwell.watch.runs import Batch


class Ports(NamedTuple):
    """The wrapper at each port: it receives the honest part and returns what takes its place."""

    driver: Callable[[Store, Runtime], Store] = lambda store, _runtime: store
    """The store itself, beneath the witness."""
    replica: Callable[[Store, Runtime], Store] = lambda store, _runtime: store
    """The store as one replica uses it, above the witness."""
    runtime: Callable[[Runtime], Runtime] = lambda runtime: runtime
    """A replica's clock, ids and tokens."""
    worker: Callable[[WorkerPort], WorkerPort] = lambda port: port
    """The stream to one worker."""
    watch: Callable[[AsyncGenerator[Batch, None], Store, str, str], AsyncGenerator[Batch, None]] = (
        lambda batches, _store, _tenant_id, _run_id: batches
    )
    """The stream to one watcher, with the store and the run that it is about."""


HONEST = Ports()
