"""A run's handle: what it waits for, and its commands."""

from __future__ import annotations

import pytest

from stepwell_client import Client, RunStatus
from stepwell_client.v1 import orchestrator_pb2, types_pb2
from tests.service.client.fakes import FakeServer, Script, a_run, watch_end
from tests.support.steps import RUN_ID


async def test_a_handle_waits_for_a_status_and_for_the_next_question(
    scripted_server: None, server: FakeServer, client: Client
) -> None:
    running = a_run(types_pb2.RUN_STATUS_RUNNING, last_event=4)
    waiting = a_run(types_pb2.RUN_STATUS_WAITING, last_event=6)
    change = types_pb2.Event(number=6, run={"status": types_pb2.RUN_STATUS_WAITING})
    question = types_pb2.Question(question_id="q", status=types_pb2.QUESTION_STATUS_OPEN)
    asked = types_pb2.Event(number=6, questions=[question])
    get, listed = orchestrator_pb2.GetRunResponse, orchestrator_pb2.ListQuestionsResponse
    server.runs.answers |= {
        "GetRunRequest": Script(get(run=running), get(run=waiting), get(run=running)),
        "ListQuestionsRequest": Script(listed(), listed(questions=[{"question": question}])),
    }
    for last in (change, asked):
        batch = orchestrator_pb2.EventBatch(
            events=[types_pb2.Event(number=5), last], resume_token="6"
        )
        server.runs.watches.append([orchestrator_pb2.WatchRunResponse(events=batch)])
    run = client.run(RUN_ID)

    await run.wait(until=[RunStatus.WAITING])
    assert f"{run.status}" == str(run.status) == "WAITING"
    found = await run.next_question()
    assert found is not None
    assert found.id == "q"
    watched = [
        int(one.resume_token) for one in server.runs.requests if hasattr(one, "resume_token")
    ]
    assert watched == [4, 4]


@pytest.mark.parametrize("what", ["a status", "a question"])
async def test_a_handle_that_waits_for_what_does_not_come_returns_at_the_runs_end(
    scripted_server: None, server: FakeServer, client: Client, what: str
) -> None:
    get = orchestrator_pb2.GetRunResponse
    ended = a_run(types_pb2.RUN_STATUS_SUCCEEDED, last_event=5)
    server.runs.answers |= {
        "GetRunRequest": Script(get(run=a_run(types_pb2.RUN_STATUS_RUNNING)), get(run=ended)),
        "ListQuestionsRequest": Script(orchestrator_pb2.ListQuestionsResponse()),
    }
    server.runs.watches.append([watch_end(orchestrator_pb2.WATCH_END_REASON_FINISHED)])
    run = client.run(RUN_ID)

    if what == "a status":
        assert (await run.wait(until=[RunStatus.PAUSED])).status is RunStatus.SUCCEEDED
    else:
        assert await run.next_question() is None
    assert run.status is RunStatus.SUCCEEDED


async def test_a_wait_for_a_status_returns_the_run_as_it_is_once_the_time_is_over(
    server: FakeServer, client: Client
) -> None:
    running = a_run(types_pb2.RUN_STATUS_RUNNING)
    server.runs.answers["GetRunRequest"] = Script(orchestrator_pb2.GetRunResponse(run=running))

    found = await client.run(RUN_ID).wait(0, until=[RunStatus.PAUSED])

    assert found.status is RunStatus.RUNNING


async def test_handle_passes_a_commands_words_on(server: FakeServer, client: Client) -> None:
    server.runs.answers["PauseRunRequest"] = Script(
        orchestrator_pb2.PauseRunResponse(run=a_run(types_pb2.RUN_STATUS_PAUSED))
    )
    run = client.run(RUN_ID)
    paused = await run.pause(reason="lunch", on_behalf_of="ann")
    (request,) = server.runs.requests
    assert (request.run_id, request.reason, request.on_behalf_of) == (RUN_ID, "lunch", "ann")
    assert (paused, run.status) == (run.snapshot, RunStatus.PAUSED)


async def test_rehearsed_resume_leaves_the_handle_as_it_was(
    server: FakeServer, client: Client
) -> None:
    server.runs.answers["ResumeRunRequest"] = Script(
        orchestrator_pb2.ResumeRunResponse(run=a_run(types_pb2.RUN_STATUS_RUNNING))
    )
    run = client.run(RUN_ID)
    rehearsed = await run.resume(validate_only=True)
    assert (rehearsed.status, run.snapshot) == (RunStatus.RUNNING, None)
