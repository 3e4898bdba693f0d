"""Converts the step kinds of a request to the loop's."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.core.records.states import StepKind
from stepwell_client.v1 import types_pb2


def step_kinds(numbers: Sequence[types_pb2.StepKind]) -> tuple[StepKind, ...]:
    """Return the kinds, each once."""
    names = dict.fromkeys(types_pb2.StepKind.Name(number) for number in numbers)
    return tuple(StepKind(name.removeprefix("STEP_KIND_")) for name in names)
