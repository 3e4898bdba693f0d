"""Connects to one of several hosts, tried one after another until one accepts.

asyncpg knows several hosts too, but has one time-out for all of them: behind a machine that is silent (its
power is gone, so nobody refuses) the others are never asked. Here each has a time-out of its own, as with
libpq, and the host that accepted last is tried first, so that a silent one costs its time-out once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import asyncpg
from asyncpg.exceptions import (
    CannotConnectNowError,
    ConnectionDoesNotExistError,
    InvalidCatalogNameError,
    TargetServerAttributeNotMatched,
)


class Hosts:
    """Connects to the first of several hosts that accepts."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        """Take keyword arguments of `asyncpg.connect`, in which `host` and `port` are lists."""
        self._arguments = dict(arguments)
        self._places: list[tuple[str, int]] = list(
            zip(self._arguments.pop("host"), self._arguments.pop("port"), strict=True)
        )

    async def connect(self, **changed: Any) -> asyncpg.Connection[Any]:
        """Open a connection, with some arguments changed.

        Raises:
            Exception: asyncpg's error; for several hosts, that of the last one that failed.
        """
        unreachable: Exception | None = None
        mismatched: Exception | None = None
        for place in tuple(self._places):
            arguments: dict[str, Any] = {
                **self._arguments,
                **changed,
                "host": [place[0]],
                "port": [place[1]],
            }
            try:
                connection: Any = await asyncpg.connect(**arguments)
            except (TargetServerAttributeNotMatched, InvalidCatalogNameError) as error:
                # A standby that lags doesn't even know a database that was made a moment ago.
                mismatched = error
            except (OSError, CannotConnectNowError, ConnectionDoesNotExistError) as error:
                unreachable = error
            else:
                self._places.sort(key=lambda one, place=place: one != place)
                return connection
        failure = unreachable or mismatched
        assert failure is not None, "a URL names a host"
        raise failure
