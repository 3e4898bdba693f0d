"""Plans of requests and outcomes: each task is read once, and a long plan in slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stepwell.core.loop.occurrences import Delivery, Planned
from stepwell.wire import plans
from stepwell.wire.faults import Faults
from stepwell.wire.plans import SLICE_TASKS, is_long, read_item, read_long_item, read_plan_of
from stepwell.wire.records import to_record
from stepwell_client.v1 import orchestrator_pb2, types_pb2, worker_pb2
from stepwell_testkit.runtime import ManualRuntime


class Reading:
    """Counts the tasks that are read before the event loop goes on; pauses take no time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.slices = [0]
        read_task: Callable[..., Any] = vars(plans)["checked_TaskSpec"]
        sleep = ManualRuntime.sleep

        def reading(*args: Any) -> Any:
            self.slices[-1] += 1
            return read_task(*args)

        async def sleeping(runtime: ManualRuntime, seconds: float) -> None:
            assert seconds > 0, "a call takes several turns of the event loop"
            self.slices.append(0)
            await sleep(runtime, 0)

        monkeypatch.setattr(plans, "checked_TaskSpec", reading)
        monkeypatch.setattr(ManualRuntime, "sleep", sleeping)


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Reading:
    return Reading(monkeypatch)


def draft(tasks: int, **last: Any) -> types_pb2.PlanDraft:
    made = types_pb2.PlanDraft(tasks=[{"task_id": f"t{n}"} for n in range(tasks)])
    made.tasks[-1].MergeFrom(types_pb2.TaskSpec(**last))
    return made


def planned(plan: types_pb2.PlanDraft) -> worker_pb2.Outcome:
    return worker_pb2.Outcome(
        delivery_id="1",
        lease=worker_pb2.Lease(run_id="r", execution_id="plan:1#1", token="token"),
        planned={"plan": plan, "reason": "why"},
        prompt="p",
    )


async def test_long_plan_is_read_once_and_in_slices(reading: Reading) -> None:
    plan = draft(2 * SLICE_TASKS + 1, depends_on=["t0"], title="last")
    request = orchestrator_pb2.StartRunRequest(plan=plan)
    assert await read_plan_of(ManualRuntime(), request) == tuple(map(to_record, plan.tasks))
    assert reading.slices == [SLICE_TASKS, SLICE_TASKS, 1, 0]


async def test_long_plan_of_an_outcome_is_read_in_slices(reading: Reading) -> None:
    outcome = planned(draft(SLICE_TASKS + 1))
    whole: Delivery = to_record(outcome)
    assert is_long(outcome)
    assert await read_long_item(ManualRuntime(), outcome, Faults()) == whole
    assert reading.slices == [SLICE_TASKS, 1, 0]


def test_short_plan_of_an_outcome_is_read_at_once(reading: Reading) -> None:
    outcome = planned(draft(SLICE_TASKS))
    assert not is_long(outcome)
    delivery = read_item(outcome, Faults())
    assert isinstance(delivery, Delivery)
    assert isinstance(delivery.result, Planned)
    assert len(delivery.result.tasks) == SLICE_TASKS
    assert reading.slices == [SLICE_TASKS]


@pytest.mark.usefixtures("reading")
async def test_fault_in_a_later_slice_is_named_by_its_place_in_the_plan() -> None:
    outcome, faults = planned(draft(SLICE_TASKS + 1, role="a b")), Faults()
    assert await read_long_item(ManualRuntime(), outcome, faults) is None
    assert [one.field for one in faults] == [f"planned.plan.tasks[{SLICE_TASKS}].role"]
