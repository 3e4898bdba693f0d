"""Classes of database errors: whether to retry, and whether to close the store."""

from __future__ import annotations

from typing import NamedTuple

from stepwell.core.records.errors import StepwellError


class Trouble(NamedTuple):
    """An error with its class."""

    error: StepwellError
    retry: bool = False
    """Nothing was done, and the same write may work in a moment."""
    fatal: bool = False
    """SQLite: the state on disk is unknown, so refuse everything until the store is opened again.

    Postgres: the connection is closed.
    """
