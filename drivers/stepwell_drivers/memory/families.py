"""Which runs are of one family, and what the deleted ones left to the others.

A fork refers to results of the run that it was forked from. So the outcomes of a run that is deleted stay
as long as another one of its family is there; with the last of them all go.
"""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.core.records.model import Outcome

_Key = tuple[str, str]
"""A tenant, and the id that a family of its runs goes by; or a tenant and a run."""


class Families:
    """The runs that are there by family, and the outcomes of those that are not."""

    def __init__(self) -> None:
        self._members: dict[_Key, set[str]] = {}
        self._left: dict[_Key, dict[str, Mapping[str, Outcome]]] = {}
        self._family_of_left: dict[_Key, _Key] = {}

    def has(self, family: _Key) -> bool:
        """Say whether any run of the family is there."""
        return family in self._members

    def join(self, family: _Key, run_id: str) -> None:
        """Add a run that was created."""
        self._members.setdefault(family, set()).add(run_id)

    def leave(self, family: _Key, run_id: str, outcomes: Mapping[str, Outcome]) -> None:
        """Let a deleted run go; what it leaves stays while there are others."""
        members = self._members[family]
        members.discard(run_id)
        tenant_id = family[0]
        if members:
            self._left.setdefault(family, {})[run_id] = outcomes
            self._family_of_left[tenant_id, run_id] = family
            return
        del self._members[family]
        for gone in self._left.pop(family, {}):
            del self._family_of_left[tenant_id, gone]

    def left_by(self, tenant_id: str, run_id: str) -> Mapping[str, Outcome] | None:
        """Return what a deleted run left to its family; None: nothing."""
        family = self._family_of_left.get((tenant_id, run_id))
        return self._left[family][run_id] if family is not None else None
