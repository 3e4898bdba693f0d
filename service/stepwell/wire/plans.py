"""Reads the plans of requests and outcomes, and checks each task against its limits in the same pass.

A plan may have 10,000 tasks: to check them first and to read them then takes twice the time. So the checks of
`wire.validate` end where a plan's tasks begin, and whoever takes a plan from a caller reads it here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from msgspec.structs import replace

from stepwell.core.loop.occurrences import Begin, Completed, Delivery, Planned, Reflected
from stepwell.core.port import Runtime
from stepwell.core.records.errors import InvalidArgument
from stepwell.core.records.model import TaskSpec
from stepwell.wire.conversions_pb2 import checked_Begin, checked_Delivery, checked_TaskSpec
from stepwell.wire.faults import Faults
from stepwell.wire.records import to_record
from stepwell.wire.validate import violations
from stepwell_client.v1 import orchestrator_pb2, types_pb2, worker_pb2

SLICE_TASKS = 1_000
"""Tasks that are read before the event loop does anything else; they take some milliseconds."""
PAUSE_S = 0.001
"""Time for others after each of several slices. A call takes several turns of the event loop; were there a slice in each, it
would wait for all of them."""

Item = worker_pb2.Outcome | worker_pb2.Begin


class _Place(NamedTuple):
    """A plan in a message, and its path there."""

    draft: types_pb2.PlanDraft
    path: str


def read_plan(draft: types_pb2.PlanDraft, path: str, faults: Faults) -> tuple[TaskSpec, ...]:
    """Return a plan's tasks, and add the faults of those at this path; with any, the tasks are of no use."""
    return tuple(chain.from_iterable(_slices(draft, path, faults)))


async def read_plan_of(
    runtime: Runtime, request: orchestrator_pb2.StartRunRequest | orchestrator_pb2.ForkRunRequest
) -> tuple[TaskSpec, ...] | None:
    """Return the plan of a request, None where it has none; the event loop goes on between slices.

    Raises:
        InvalidArgument: tasks break a limit.
    """
    if not request.HasField("plan"):
        return None
    faults = Faults()
    tasks = await _read_slowly(runtime, _Place(request.plan, "plan"), faults)
    faults.refuse()
    return tasks


def is_long(item: Item) -> bool:
    """Return whether a worker's item brings a plan of several slices."""
    place = _place_in(item)
    return place is not None and len(place.draft.tasks) > SLICE_TASKS


def read_item(item: Item, faults: Faults) -> Delivery | Begin | None:
    """Return what an item delivers to the loop, or None after adding its faults.

    A plan is taken out of the message.
    """
    place = _place_in(item)
    if place is None:
        if isinstance(item, worker_pb2.Outcome) and item.HasField("suspended"):
            check_child_plans(item.suspended.waits, "suspended.waits", faults)
        return None if faults else _read(item, faults)
    faults.take_over(violations(item), "")
    return _with_plan(item, place, read_plan(*place, faults), faults)


def check_child_plans(
    calls: Sequence[worker_pb2.Outcome.SuspendedCall], path: str, faults: Faults
) -> None:
    """Add the faults of the plans of child runs that calls at this path start."""
    for at, call in enumerate(calls):
        if call.HasField("child") and call.child.HasField("plan"):
            _check_child_plan(call.child, f"{path}[{at}].child.plan", faults)


def _check_child_plan(
    child: types_pb2.ChildRun | worker_pb2.Outcome.AwaitChild, path: str, faults: Faults
) -> None:
    read_plan(child.plan, path, faults)
    if not child.plan.tasks:
        faults.add(f"{path}.tasks", "a plan has at least one task; without a plan the child plans")


async def read_long_item(runtime: Runtime, item: Item, faults: Faults) -> Delivery | Begin | None:
    """Do as `read_item`; the event loop goes on between slices."""
    place = _place_in(item)
    if place is None:
        return _read(item, faults)
    faults.take_over(violations(item), "")
    return _with_plan(item, place, await _read_slowly(runtime, place, faults), faults)


def _read(item: Item, faults: Faults, *, checked: bool = False) -> Delivery | Begin | None:
    """Read an item, and check it unless it is `checked`; None: it has faults, and they are added."""
    try:
        if checked:
            return to_record(item)
        if isinstance(item, worker_pb2.Begin):
            return checked_Begin(item, faults)
        return checked_Delivery(item, faults)
    except InvalidArgument as error:
        for one in error.violations:
            faults.add(one.field, one.description)
        return None


def _place_in(item: Item) -> _Place | None:
    if isinstance(item, worker_pb2.Begin):
        return None
    kind = item.WhichOneof("result")
    if kind == "completed" and item.completed.HasField("more"):
        return _Place(item.completed.more, "completed.more")
    if kind == "planned":
        return _Place(item.planned.plan, "planned.plan")
    if kind == "reflected":
        return _Place(item.reflected.plan, "reflected.plan")
    return None


def _with_plan(
    item: Item, place: _Place, tasks: tuple[TaskSpec, ...], faults: Faults
) -> Delivery | Begin | None:
    if faults:
        return None
    place.draft.ClearField("tasks")
    delivery = _read(item, faults, checked=True)
    if not isinstance(delivery, Delivery) or not isinstance(
        delivery.result, Completed | Planned | Reflected
    ):
        return delivery
    return replace(delivery, result=replace(delivery.result, tasks=tasks))


async def _read_slowly(runtime: Runtime, place: _Place, faults: Faults) -> tuple[TaskSpec, ...]:
    tasks: list[TaskSpec] = []
    for part in _slices(*place, faults):
        tasks += part
        if len(place.draft.tasks) > SLICE_TASKS:
            await runtime.sleep(PAUSE_S)
    return tuple(tasks)


def _slices(draft: types_pb2.PlanDraft, path: str, faults: Faults) -> Iterator[list[TaskSpec]]:
    for first in range(0, len(draft.tasks), SLICE_TASKS):
        part: list[TaskSpec] = []
        found = Faults()
        for place, task in enumerate(draft.tasks[first : first + SLICE_TASKS], first):
            read = checked_TaskSpec(task, found)
            if read is not None:
                part.append(read)
            else:
                faults.take_over(found, f"{path}.tasks[{place}].")
                found = Faults()
            if task.HasField("child") and task.child.HasField("plan"):
                _check_child_plan(task.child, f"{path}.tasks[{place}].child.plan", faults)
        yield part
