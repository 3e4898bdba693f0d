"""What an error is to the store, whichever database it came from."""

from __future__ import annotations

from typing import NamedTuple

from stepwell.core.records.errors import StepwellError


class Trouble(NamedTuple):
    """What an error is to the store."""

    error: StepwellError
    retry: bool = False
    """Nothing was done and the same may work in a moment."""
    fatal: bool = False
    """SQLite: what is on disk is not known any more: refuse everything until it is opened again.

    Postgres: the connection is of no use any more, whatever it was.
    """


class Raced(Exception):
    """Another transaction was faster since this one looked: take it back, and look again."""
