"""Commands that are carried out only at an expected version, or only checked."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from stepwell_client.v1 import types_pb2
from tests.service.conftest import Client, refusal


async def test_a_command_that_expects_another_version_does_nothing(client: Client) -> None:
    run = (await client.ask("StartRun", goal="g")).run
    run_id, version = run.spec.run_id, run.version
    paused = await client.ask("PauseRun", run_id=run_id, expected_version=version, request_id="p")
    again = await client.ask("PauseRun", run_id=run_id, expected_version=version, request_id="p")

    error = await refusal(client.ask("CancelRun", run_id=run_id, expected_version=version))
    assert (error.code, error.reason) == (grpc.StatusCode.ABORTED, "VERSION_CHANGED")
    assert (paused.changed, again.changed) == (True, False)
    assert (await client.ask("GetRun", run_id=run_id)).run.version == paused.run.version


async def test_a_deletion_is_checked_alone_or_expects_a_version(client: Client) -> None:
    run_id = (await client.ask("StartRun", goal="g")).run.spec.run_id
    error = await refusal(client.ask("DeleteRun", run_id=run_id, validate_only=True))
    assert error.reason == "RUN_NOT_ENDED"
    version = (await client.ask("CancelRun", run_id=run_id)).run.version

    await client.ask("DeleteRun", run_id=run_id, validate_only=True)
    error = await refusal(client.ask("DeleteRun", run_id=run_id, expected_version=version + 1))
    assert (error.code, error.reason) == (grpc.StatusCode.ABORTED, "VERSION_CHANGED")
    assert (await client.ask("GetRun", run_id=run_id)).run.version == version
    await client.ask("DeleteRun", run_id=run_id, expected_version=version)
    assert (await refusal(client.ask("GetRun", run_id=run_id))).reason == "RUN_NOT_FOUND"


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        ("PauseRun", {}),
        ("CancelRun", {}),
        ("StopRun", {}),
        ("SendSignal", {"name": "note"}),
        ("SkipTask", {"task_id": "a"}),
        ("RaiseBudget", {"budget": types_pb2.Budget(tasks=9)}),
    ],
)
async def test_validate_only_checks_a_command_and_changes_nothing(
    client: Client, method: str, fields: dict[str, Any]
) -> None:
    task = types_pb2.TaskSpec(task_id="a")
    run = (
        await client.ask(
            "StartRun", plan=types_pb2.PlanDraft(tasks=[task]), budget=types_pb2.Budget(tasks=2)
        )
    ).run
    which: Any = {"run_id": run.spec.run_id, "validate_only": True}

    reply = await client.ask(method, **which, **fields)

    assert (reply.run.version, reply.changed) == (run.version, False)
    assert (await client.ask("GetRun", run_id=run.spec.run_id)).run.version == run.version
    await client.ask("CancelRun", run_id=run.spec.run_id)
    if method != "CancelRun":
        error = await refusal(client.ask(method, **which, **fields))
        assert error.code is grpc.StatusCode.FAILED_PRECONDITION
