"""What the parts of the clients stand on: a part is a theme's methods, mixed into a client."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

from stepwell_client._procedures import Procedure, Procedures

T = TypeVar("T")


class AsyncPart(ABC):
    """A theme's methods of `Client`."""

    _procedures: Procedures

    @abstractmethod
    async def _do(self, procedure: Procedure[T]) -> T:
        """Drive a procedure to its end."""
        ...


class SyncPart(ABC):
    """A theme's methods of `SyncClient`."""

    _procedures: Procedures

    @abstractmethod
    def _do(self, procedure: Procedure[T]) -> T:
        """Drive a procedure to its end."""
        ...
