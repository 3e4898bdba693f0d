"""Checks that journal entries come in an order in which a worker can have made them.

A call's runs are numbered 1, 2, 3 … over all attempts, without gaps. An AT_MOST_ONCE call has a
BEGIN before its END, and before the TRY of the same number. A TRY names the attempt that made it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence

from stepwell.core.records.journal import Entry
from stepwell.core.records.model import Failure
from stepwell.core.records.states import Effect, JournalMark

INVALID_ENTRY = "INVALID_ENTRY"
LEASES_MAX = 1_024
"""The number of leases whose numbers are remembered. Those of other leases are read from the store."""

Numbers = dict[str, int]
"""The highest number of each call's BEGIN and TRY entries."""


class KnownNumbers:
    """The numbers that were written under each lease, as far as this replica has seen them.

    They may be too low, because another replica may have written for the same lease, so the store
    is read before they refuse an entry.
    """

    def __init__(self) -> None:
        self._by_token: OrderedDict[str, Numbers] = OrderedDict()

    def of(self, token: str) -> Numbers:
        """Return the known numbers of a lease."""
        return self._by_token.get(token, {})

    def add(self, token: str, entries: Iterable[Entry]) -> None:
        """Note written entries."""
        numbered = [one for one in entries if one.number]
        if not numbered:
            return
        numbers = self._by_token.setdefault(token, {})
        self._by_token.move_to_end(token)
        if len(self._by_token) > LEASES_MAX:
            self._by_token.popitem(last=False)
        for one in numbered:
            numbers[one.key] = max(numbers.get(one.key, 0), one.number)


def needs_order(entry: Entry) -> bool:
    """Return whether an entry depends on earlier ones of its call, or names its attempt."""
    return bool(entry.number) or entry.effect is Effect.AT_MOST_ONCE


def out_of_order(
    entries: Sequence[Entry], known: Mapping[str, int], attempt: int
) -> dict[int, Failure]:
    """Return the reasons for refusing entries of this attempt, by index; empty if all are in order."""
    numbers: Numbers = {}
    refused: dict[int, Failure] = {}
    for place, one in enumerate(entries):
        if not needs_order(one):
            continue
        last = numbers.get(one.key, known.get(one.key, 0))
        what = _fault(one, last, attempt)
        if what:
            message = f"entries[{place}].{what}"
            refused[place] = Failure(kind=INVALID_ENTRY, message=message, retryable=False)
        else:
            numbers[one.key] = max(last, one.number)
    return refused


def _fault(entry: Entry, last: int, attempt: int) -> str:
    """Return the wrong field of an entry with its remedy, or ""."""
    is_once = entry.effect is Effect.AT_MOST_ONCE
    if entry.mark is JournalMark.TRY and entry.attempt != attempt:
        return f"attempt: is {entry.attempt}; a TRY has the number of its own attempt, {attempt}"
    if entry.mark is JournalMark.END and is_once and not last:
        return (
            f"mark: is END, and the AT_MOST_ONCE call {entry.key!r} has no BEGIN; write that first"
        )
    if entry.mark is JournalMark.TRY and is_once and entry.number > last:
        return f"number: is {entry.number}, and the call {entry.key!r} has no BEGIN of that number; write that first"
    if entry.number > last + 1:
        return f"number: is {entry.number}, and the last of the call {entry.key!r} was {last}; send {last + 1}"
    return ""
