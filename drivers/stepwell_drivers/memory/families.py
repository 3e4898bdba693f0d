"""Which runs are of one family, and what the deleted ones left to the others.

A fork refers to results and journals of the run that it was forked from. So the outcomes and the journals of a
run that is deleted stay as long as another one of its family is there; with the last of them all go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from stepwell.core.records.model import Outcome
from stepwell_drivers.memory.journals import RunJournals

_Key = tuple[str, str]
"""A tenant, and the id that a family of its runs goes by; or a tenant and a run."""


class Left(NamedTuple):
    """Outcomes and journals that a run leaves to its family."""

    outcomes: Mapping[str, Outcome]
    journals: RunJournals


class Families:
    """The runs that are there by family, and what those left that are not."""

    def __init__(self) -> None:
        self._members: dict[_Key, set[str]] = {}
        self._left: dict[_Key, dict[str, Left]] = {}
        self._family_of_left: dict[_Key, _Key] = {}

    def has(self, family: _Key) -> bool:
        """Say whether any run of the family is there."""
        return family in self._members

    def join(self, family: _Key, run_id: str) -> None:
        """Add a run that was created."""
        self._members.setdefault(family, set()).add(run_id)

    def leave(self, family: _Key, run_id: str, left: Left) -> None:
        """Let a deleted run go; what it leaves stays while there are others."""
        members = self._members[family]
        members.discard(run_id)
        tenant_id = family[0]
        if members:
            self._left.setdefault(family, {})[run_id] = left
            self._family_of_left[tenant_id, run_id] = family
            return
        del self._members[family]
        for gone in self._left.pop(family, {}):
            del self._family_of_left[tenant_id, gone]

    def left_by(self, tenant_id: str, run_id: str) -> Left | None:
        """Return what a deleted run left to its family; None: nothing."""
        family = self._family_of_left.get((tenant_id, run_id))
        return self._left[family][run_id] if family is not None else None
