"""Groups of parts that are sent together: one script call for the runs of one partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepwell.core.records.errors import OutcomeUnknown, StoreError, StoreUnavailable
from stepwell_drivers.redis.keys import Partition, RunKeys
from stepwell_drivers.redis.network import Ask
from stepwell_drivers.redis.rows import packed
from stepwell_drivers.redis.scripts import Call, Script

GROUP_BYTES = 256 * 1024
"""A call with more bytes takes no further run, because a nearly full server refuses a call as a whole."""


class Group:
    """The parts for runs of one partition, sent as one call."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.places: list[int] = []
        """The index of each part in the caller's list."""
        self.size = 0
        self._keys: list[bytes] = []
        self._lines: list[bytes] = []
        """The fields of the runs' lines in the partition's book."""
        self._numbers: dict[str, int] = {}
        self._parts: list[tuple[Any, ...]] = []
        self._arguments: list[bytes] = []

    def add(
        self,
        run: RunKeys,
        keys: Sequence[bytes],
        place: int,
        parts: tuple[Any, ...],
        arguments: Sequence[bytes],
    ) -> None:
        """Append a part for a run; `keys` are the run's keys that the script needs."""
        number = self._numbers.get(run.name)
        if number is None:
            number = self._numbers[run.name] = len(self._numbers) + 1
            self._keys += keys
            self._lines.append(f"v{run.name}".encode())
        self._parts.append((number, *parts))
        self._arguments += arguments
        self.places.append(place)
        self.size += sum(map(len, arguments))

    def ask(self, script: Script, keys: Sequence[bytes], *head: Any) -> Ask:
        """Return the call: `keys` come before the runs' keys, and `head` before the number of runs."""
        packed_head = packed((*head, len(self._lines), self._parts))
        call = Call(script, (*keys, *self._keys), (packed_head, *self._lines, *self._arguments))
        return Ask(self.partition.slot, call)


class Groups:
    """Sorts parts into groups: all parts for one run go into one group, in order."""

    def __init__(self) -> None:
        self.all: list[Group] = []
        self._of_run: dict[str, Group] = {}
        self._last: dict[int, Group] = {}
        """The last group of each partition."""

    def of(self, run: RunKeys) -> Group:
        """Return the group of a run."""
        group = self._of_run.get(run.name)
        if group is None:
            group = self._last.get(run.partition.number)
            if group is None or group.size > GROUP_BYTES:
                group = self._last[run.partition.number] = Group(run.partition)
                self.all.append(group)
            self._of_run[run.name] = group
        return group


def failure_of(failures: Sequence[StoreError], *, is_done: bool) -> StoreError:
    """Return one error for all groups; `is_done` says that some parts were applied.

    It says "nothing was done" only if that is certain of each part.
    """
    for failure in failures:
        if not isinstance(failure, StoreUnavailable | OutcomeUnknown):
            return failure
    for failure in failures:
        if isinstance(failure, OutcomeUnknown):
            return failure
    if is_done:
        return OutcomeUnknown(f"only a part of a group was applied: {failures[0].message}")
    return failures[0]
