"""The dependencies that the services of a server share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeAlias

import grpc.aio

from stepwell.config import Settings
from stepwell.core.port import Runtime, Store, StoreInfo
from stepwell.engine.executor import Executor
from stepwell.watch.notifier import Notifier


class Dependencies(NamedTuple):
    """The dependencies of a service."""

    store: Store
    executor: Executor
    notifier: Notifier
    runtime: Runtime
    settings: Settings
    store_info: StoreInfo
    console_address: str = ""
    """The URL of the console's page; empty if there is none."""


class Service(NamedTuple):
    """A service, ready to be added to a server."""

    name: str
    """The full name, such as `stepwell.v1.Worker`."""
    add_to: Callable[[grpc.aio.Server], None]
    """The generated `add_…Servicer_to_server`, bound to the servicer."""
    end_streams: Callable[[], Awaitable[None]] | None = None
    """Ends the service's streams, each with a message, when the server drains, after the last commit."""


ServiceMaker = Callable[[Dependencies], Service]

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
