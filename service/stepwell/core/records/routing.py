"""Routing: which worker does which steps, by kind, type, role and version.

A store keeps ready steps in lanes of equal kind, role, type and pin, so that a claim can skip a
whole lane that its worker doesn't do. A pin is text that a store can compare: empty (any worker),
`=` and a version, or `>` and the key of the lowest version. Keys are ordered as bytes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from stepwell.core.records.record import Record
from stepwell.core.records.states import StepKind, VersionMatch

ANY = "*"
"""In a pattern: any type, or any role."""
TYPED = frozenset({StepKind.TASK, StepKind.RECONCILE})
"""Kinds of step that patterns distinguish."""

_NUMBERS = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18}){0,7}")
_DIGITS = 18


class TaskPattern(Record, frozen=True, kw_only=True):
    """TASK or RECONCILE steps of a type and a role; `*`: any."""

    kind: StepKind = StepKind.TASK
    type: str = ""
    role: str = ""


class WorkerVersion(Record, frozen=True, kw_only=True):
    """The version that a run's workers must have."""

    match: VersionMatch = VersionMatch.ANY
    version: str = ""
    """Empty with ANY."""


def version_key(version: str) -> str:
    """Return text that is ordered like versions of numbers and dots; empty for other versions."""
    if not _NUMBERS.fullmatch(version):
        return ""
    numbers = [int(number) for number in version.split(".")]
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()
    return ".".join(f"{number:0{_DIGITS}d}" for number in numbers)


def pin_of(wanted: WorkerVersion) -> str:
    """Return the pin of a run's steps."""
    if wanted.match is VersionMatch.ANY:
        return ""
    if wanted.match is VersionMatch.EXACT:
        return f"={wanted.version}"
    return f">{version_key(wanted.version)}"


def fits(pin: str, version: str) -> bool:
    """Return whether a worker of this version may do steps with this pin."""
    if not pin or pin == f"={version}":
        return True
    key = version_key(version)
    return bool(key) and ">" <= pin <= f">{key}"


def does(tasks: Sequence[TaskPattern], kind: StepKind, type_: str, role: str) -> bool:
    """Return whether a worker with these patterns does steps of this kind, type and role."""
    if not tasks or kind not in TYPED:
        return True
    for one in tasks:
        if one.kind is kind and one.type in (ANY, type_) and one.role in (ANY, role):
            return True
    return False
