"""The bases of commands."""

from __future__ import annotations

from stepwell.core.records.record import Record


class Called(Record, frozen=True, kw_only=True):
    """The base of all commands, with the sender, whom its events and its run name."""

    actor: str = ""
    """The caller, by its credential."""
    on_behalf_of: str = ""
    """The name on whose behalf the caller acts; empty if it gave none."""


class Command(Called, frozen=True, kw_only=True):
    """The base of all commands to an existing run."""

    request_id: str = ""
    fingerprint: str = ""
    """The fingerprint of the request; the same id with another fingerprint is an error."""
    reason: str = ""
    expected_version: int = 0
    """Execute the command only if the run is at this version; 0: at any."""
