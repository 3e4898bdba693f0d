"""What the parts of the clients stand on: a part is a theme's methods, mixed into a client."""

from __future__ import annotations

from typing import TypeVar

from stepwell_client._procedures import Procedure, Procedures

T = TypeVar("T")


class AsyncPart:
    """A theme's methods of `Client`."""

    _procedures: Procedures

    async def _do(self, procedure: Procedure[T]) -> T:
        raise NotImplementedError


class SyncPart:
    """A theme's methods of `SyncClient`."""

    _procedures: Procedures

    def _do(self, procedure: Procedure[T]) -> T:
        raise NotImplementedError
