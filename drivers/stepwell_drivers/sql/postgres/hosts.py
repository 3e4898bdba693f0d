"""Connects to one of several hosts, tried one after another until one accepts.

asyncpg also takes several hosts, but with one time-out for all: after a machine that is silent
(without power nothing refuses) the others are never tried. Here each host has its own time-out, as
in libpq, and the host that accepted last is tried first, so that a silent host costs its time-out
once.
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
        """Open a connection; `changed` overrides arguments.

        Raises:
            Exception: asyncpg's error; with several hosts, that of the last host that failed.
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
                # A lagging standby may not even know a database that was created a moment ago.
                mismatched = error
            except (OSError, CannotConnectNowError, ConnectionDoesNotExistError) as error:
                unreachable = error
            else:
                self._places.sort(key=lambda one, place=place: one != place)
                return connection
        failure = unreachable or mismatched
        assert failure is not None, "a URL names a host"
        raise failure
