"""Every field of every request has a limit, its comment quotes it, and a fault is named by its path."""

from __future__ import annotations

import re
import time
import timeit
import uuid
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message
from scripts.conversions import checks
from scripts.conversions import limits as kinds

from stepwell.core.records import limits
from stepwell.core.records.errors import InvalidArgument
from stepwell.wire import validate
from stepwell.wire.faults import Faults
from stepwell.wire.plans import read_item, read_plan
from stepwell_client.store.v1 import store_pb2
from stepwell_client.v1 import limits_pb2, orchestrator_pb2, types_pb2, worker_pb2

TOP = Path(__file__).resolve().parents[3]
RUN_ID = str(uuid.UUID(int=7))
LEASE: dict[str, Any] = {"lease": {"run_id": RUN_ID, "execution_id": "task:a#1", "token": "0" * 32}}


def faults_of(message: Message) -> Faults:
    """The faults of a message, and if it has none those of its plan's tasks: in the order in which a server looks."""
    if isinstance(message, worker_pb2.Outcome):
        read_item(message, faults := Faults())
        return faults
    faults = validate.violations(message)
    if not faults and isinstance(message, orchestrator_pb2.StartRunRequest):
        read_plan(message.plan, "plan", faults)
    return faults


def paths(message: Message) -> list[str]:
    return sorted(violation.field for violation in faults_of(message))


def start(**fields: Any) -> orchestrator_pb2.StartRunRequest:
    return orchestrator_pb2.StartRunRequest(**fields)


def outcome(**fields: Any) -> worker_pb2.Outcome:
    whole = {"delivery_id": "d1", **LEASE, "completed": worker_pb2.Outcome.Completed(), **fields}
    return worker_pb2.Outcome(**whole)


# --- the options are whole ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "field",
    ["GetRunRequest.run_id", "TaskSpec.depends_on", "Payload.data", "StartRunRequest.labels"],
)
def test_field_without_a_limit_stops_the_generation(
    field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = checks.limit_of
    monkeypatch.setattr(
        checks,
        "limit_of",
        lambda one: None if one.full_name == f"stepwell.v1.{field}" else whole(one),
    )

    with pytest.raises(TypeError, match=rf"{re.escape(field)} has no limit"):
        checks.write_checks(checks.Checks())


@pytest.mark.parametrize(
    ("message", "field", "option", "value"),
    [
        (types_pb2.Payload, "data", "bytes", limits.PAYLOAD_BYTES_MAX),
        (types_pb2.PlanDraft, "tasks", "items", limits.PLAN_TASKS_MAX),
        (types_pb2.TaskSpec, "prompt", "bytes", limits.PROMPT_BYTES_MAX),
        (types_pb2.Failure, "message", "bytes", limits.FAILURE_BYTES_MAX),
        (types_pb2.Failure, "violations", "items", limits.VIOLATIONS_MAX),
        (types_pb2.JournalEntry, "key", "chars", limits.CALL_KEY_CHARS_MAX),
        (types_pb2.JournalEntry, "messages", "bytes", limits.ENTRY_MESSAGES_BYTES_MAX),
        (orchestrator_pb2.StartRunRequest, "plan", "bytes", limits.PLAN_BYTES_MAX),
        (orchestrator_pb2.StartRunRequest, "max_iterations", "max", limits.ITERATIONS_MAX),
        (orchestrator_pb2.StartRunRequest, "max_parallel", "max", limits.PARALLEL_MAX),
        (orchestrator_pb2.ListRunsRequest, "page_size", "max", limits.PAGE_SIZE_MAX),
        (orchestrator_pb2.WaitRunRequest, "timeout", "max", limits.WAIT_MS_MAX),
        (worker_pb2.WorkRequest, "credits", "max", limits.CREDITS_MAX),
        (worker_pb2.WorkRequest, "outcomes", "items", limits.ITEMS_PER_MESSAGE_MAX),
        (worker_pb2.Outcome, "messages", "items", limits.MESSAGES_PER_OUTCOME_MAX),
        (worker_pb2.LeaseHeartbeat, "progress", "bytes", limits.PROGRESS_BYTES_MAX),
        (worker_pb2.JournalWrite, "forget", "items", limits.FORGOTTEN_CALLS_MAX),
        (store_pb2.CommitRequest, "commits", "items", limits.STORE_ITEMS_MAX),
    ],
)
def test_option_of_a_field_is_the_limit_that_the_service_has_by_name(
    message: type[Message], field: str, option: str, value: int
) -> None:
    options: Any = message.DESCRIPTOR.fields_by_name[field].GetOptions()
    assert getattr(options.Extensions[limits_pb2.limit], option) == value


# --- limits, and one beyond them ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inside", "beyond", "path"),
    [
        ({"goal": "x" * 65_536}, {"goal": "x" * 65_537}, "goal"),
        ({"goal": "é" * 32_768}, {"goal": "é" * 32_768 + "x"}, "goal"),
        ({"goal": "\x01\r\n"}, {"goal": "a\x00b"}, "goal"),
        ({"queue": "q" * 128}, {"queue": "q" * 129}, "queue"),
        ({"priority": -100}, {"priority": -101}, "priority"),
        ({"max_iterations": 10_000}, {"max_iterations": 10_001}, "max_iterations"),
        ({"max_parallel": 1}, {"max_parallel": 0}, "max_parallel"),
        ({"request_id": "r" * 128}, {"request_id": "a\nb"}, "request_id"),
        ({"labels": {"k": "v" * 256}}, {"labels": {"k": "v" * 257}}, "labels['k']"),
        ({"labels": {"k" * 128: ""}}, {"labels": {"": "v"}}, "labels['']"),
        (
            {"labels": {str(i): "" for i in range(32)}},
            {"labels": {str(i): "" for i in range(33)}},
            "labels",
        ),
        ({"step_timeout": {"seconds": 0}}, {"step_timeout": {"nanos": -1}}, "step_timeout"),
        (
            {"start_delay": {"seconds": 366 * 86_400}},
            {"start_delay": {"seconds": 366 * 86_400, "nanos": 1}},
            "start_delay",
        ),
        (
            {"step_timeout": {"nanos": 999_999_999}},
            {"step_timeout": {"nanos": 1_000_000_000}},
            "step_timeout",
        ),
        ({"budget": {"tasks": 10**15}}, {"budget": {"tasks": -1}}, "budget.tasks"),
        (
            {"step_retry": {"jitter": 0}},
            {"step_retry": {"jitter": float("nan")}},
            "step_retry.jitter",
        ),
        (
            {"input": {"data": b"x" * 1_048_576}},
            {"input": {"data": b"x" * 1_048_577}},
            "input.data",
        ),
        ({"stages": [3, 4]}, {"stages": [2]}, "stages[0]"),
        (
            {"plan": {"tasks": [{"task_id": "a"}]}},
            {"plan": {"tasks": [{"task_id": "a"}, {"task_id": ""}]}},
            "plan.tasks[1].task_id",
        ),
        (
            {"plan": {"tasks": [{"task_id": "a", "depends_on": ["b"]}]}},
            {"plan": {"tasks": [{"task_id": "a", "depends_on": ["b", "c d"]}]}},
            "plan.tasks[0].depends_on[1]",
        ),
    ],
    ids=str,
)
def test_a_limit_holds_to_the_last_one(
    inside: dict[str, object], beyond: dict[str, object], path: str
) -> None:
    assert paths(start(**inside)) == []
    assert paths(start(**beyond)) == [path]


@pytest.mark.parametrize(
    "name", ["a b", "a\n", "{a}", "%61", "../a", "-a", "é", "\u202ea", "a\x00", " ", "*"], ids=repr
)
def test_names_are_of_the_allow_list(name: str) -> None:
    assert paths(start(queue=name)) == ["queue"]
    assert paths(start(queue="team/agents:v1.2_b@c+d-e", pipeline_id="0")) == []


@pytest.mark.parametrize("form", ["", "{}0", "{}\n", "{{{}}}", "-", "a b"])
def test_a_malformed_run_id_is_named(form: str) -> None:
    for run_id in (RUN_ID, "x", "nightly/2026-01-01"):
        assert paths(orchestrator_pb2.GetRunRequest(run_id=run_id)) == []
    assert paths(orchestrator_pb2.GetRunRequest(run_id=form.format(RUN_ID))) == ["run_id"]


def test_an_enum_s_unknown_and_unspecified_numbers_are_named() -> None:
    request = orchestrator_pb2.ListRunsRequest.FromString(b"\x0a\x03\x01\x63\x00")
    assert paths(request) == ["statuses[1]", "statuses[2]"]
    task = types_pb2.TaskSpec.FromString(b"\x60\x63")
    task.task_id = "a"
    assert paths(start(plan={"tasks": [task]})) == ["plan.tasks[0].on_failure"]


# --- what is raised ------------------------------------------------------------------------------------


def test_a_goal_of_ten_megabytes_is_refused_in_a_short_sentence() -> None:
    validate.check(start(goal="survey"))
    with pytest.raises(InvalidArgument) as caught:
        validate.check(start(goal="x" * 10_000_000))
    assert str(caught.value) == "goal: 10,000,000 bytes; limit: 64 KiB"
    assert [violation.field for violation in caught.value.violations] == ["goal"]


def test_nul_in_a_person_s_text_is_refused_with_its_place() -> None:
    with pytest.raises(InvalidArgument) as caught:
        validate.check(start(goal="ab\x00c"))
    assert str(caught.value) == "goal: NUL as character 3, where any other may stand; limit: 64 KiB"


def test_faults_beyond_a_hundred_are_counted_and_not_listed() -> None:
    with pytest.raises(InvalidArgument, match=r"\(and 4,999 more\)") as caught:
        faults_of(start(plan={"tasks": [types_pb2.TaskSpec() for _ in range(5_000)]})).refuse()
    assert len(caught.value.violations) == limits.VIOLATIONS_MAX


def test_a_plan_of_one_task_too_many_is_not_walked_through() -> None:
    assert paths(start(plan={"tasks": [types_pb2.TaskSpec()] * 10_001})) == ["plan.tasks"]


def test_a_plan_of_too_many_bytes_is_refused_as_a_whole() -> None:
    tasks = [types_pb2.TaskSpec(task_id=f"t{i}", prompt="x" * 200_000) for i in range(16)]
    assert paths(start(plan={"tasks": tasks})) == ["plan"]


def test_a_hostile_value_is_shown_short_and_without_controls() -> None:
    (violation,) = validate.violations(start(queue="\x1b[31m" + "\n" * 10 + "x" * 1_000))
    assert len(violation.description) < 200
    assert violation.description.isprintable()


def test_no_secret_and_no_payload_is_shown() -> None:
    message = outcome(
        lease={**LEASE["lease"], "token": "hidden" * 100},
        completed={"result": {"data": b"hidden" * 200_000}},
    )
    found = validate.violations(message)
    assert [violation.field for violation in found] == ["lease.token", "completed.result.data"]
    assert "hidden" not in repr(found)


# --- workers ---------------------------------------------------------------------------------------------


def test_an_outcome_is_looked_at_by_itself() -> None:
    bad = worker_pb2.Outcome()
    assert paths(worker_pb2.WorkRequest(outcomes=[bad], begins=[worker_pb2.Begin()])) == []
    assert paths(worker_pb2.ReportOutcomesRequest(outcomes=[bad])) == []
    assert paths(bad) == ["delivery_id", "lease", "result"]
    assert paths(outcome()) == []


HELLO = {"instance_id": "i", "tasks": [{"role": "*"}, {"role": "writer"}]}


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (orchestrator_pb2.ListRunsRequest(page_size=1_000), []),
        (orchestrator_pb2.ListRunsRequest(page_size=1_001), ["page_size"]),
        (orchestrator_pb2.WaitRunRequest(run_id=RUN_ID, timeout={"seconds": 301}), ["timeout"]),
        (
            orchestrator_pb2.WatchRunRequest(
                run_id=RUN_ID, resume_token="x" * 1_025, progress_interval={"nanos": 1}
            ),
            ["progress_interval", "resume_token"],
        ),
        (outcome(failed={}), ["failed.failure"]),
        (outcome(reflected={}), ["reflected.decision"]),
        (outcome(usage={"cost_micros": -1}), ["usage.cost_micros"]),
        (outcome(response="x" * 1_048_577), ["response"]),
        (outcome(messages=[{}] * 257), ["messages"]),
        (outcome(messages=[{"content": "x"}]), ["messages[0].role"]),
        (outcome(failed={"failure": {"message": "x" * 65_537}}), ["failed.failure.message"]),
        (
            outcome(planned={"plan": {"tasks": [{"task_id": "a", "role": "a b"}]}}),
            ["planned.plan.tasks[0].role"],
        ),
        (worker_pb2.WorkRequest(hello={"worker_id": "w", **HELLO}), []),
        (worker_pb2.WorkRequest(hello=HELLO), ["hello.worker_id"]),
        (
            worker_pb2.WorkRequest(
                hello={**HELLO, "worker_id": "w", "tasks": [{"type": "*"}, {"type": "**"}]}
            ),
            ["hello.tasks[1].type"],
        ),
        (store_pb2.LoadRequest(tenant_id="a b", run_id="x" * 129), ["run_id", "tenant_id"]),
        (store_pb2.PageRequest(), ["query"]),
        (store_pb2.PageRequest(feed={}), ["feed.limit"]),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Message) else " ".join(one) or "sound",
)
def test_a_fault_of_a_message_is_named(message: Message, found: list[str]) -> None:
    assert paths(message) == found


def test_what_a_worker_writes_is_cleaned_and_not_refused() -> None:
    odd, one_line = "a\x00\n\x01", "a\x00\n"
    failure = {"kind": one_line, "message": odd, "details": odd}
    session = {"backend": one_line, "session_id": one_line}
    message = outcome(
        prompt=odd,
        response=odd,
        session=session,
        messages=[{"role": one_line, "content": odd}],
        failed={"failure": {**failure, "violations": [{"field": odd, "description": odd}]}},
    )
    assert paths(message) == []
    kept, kept_line = "a\\x00\n\x01", "a\\x00\\x0a"
    assert (message.prompt, message.response) == (kept, kept)
    assert (message.session.backend, message.session.session_id) == (kept_line, kept_line)
    assert (message.messages[0].role, message.messages[0].content) == (kept_line, kept)
    said = message.failed.failure
    assert (said.kind, said.message, said.details) == (kept_line, kept, kept)
    assert (said.violations[0].field, said.violations[0].description) == (kept, kept)


def test_progress_is_smaller_than_other_payloads() -> None:
    beat = worker_pb2.LeaseHeartbeat(**LEASE, progress=types_pb2.Payload(data=b"x" * 16_384))
    assert paths(worker_pb2.HeartbeatRequest(heartbeats=[beat])) == []
    beat.progress.data += b"x"
    assert paths(worker_pb2.HeartbeatRequest(heartbeats=[beat, beat])) == [
        "heartbeats[0].progress",
        "heartbeats[1].progress",
    ]


# --- the store, and speed ----------------------------------------------------------------------------


def test_of_a_record_only_names_and_nul_are_checked() -> None:
    lease = store_pb2.Lease(execution_id="a\n" * 1_000, token="", worker_id="w 1")
    said = types_pb2.Message(role="a b", content="a\x00")
    run = store_pb2.Run(spec={"queue": "q\n", "labels": {"k": "v\x00", "a b": "v\n"}})
    commit = store_pb2.Commit(run_id="{a}", run=run, leases=[lease], messages=[said])
    assert paths(store_pb2.CommitRequest(commits=[store_pb2.Commit(), commit])) == [
        "commits[1].leases[0].worker_id",
        "commits[1].messages[0].content",
        "commits[1].run.spec.labels['k']",
        "commits[1].run.spec.queue",
        "commits[1].run_id",
    ]
    wants = [
        store_pb2.Want(tenant_id="t", queues=["q", "\x00"], tasks=[{"role": "*"}, {"role": "**"}])
    ]
    claim = store_pb2.ClaimRequest(claim={"wants": wants})
    assert paths(claim) == ["claim.wants[0].queues[1]", "claim.wants[0].tasks[1].role"]


def _long_plan(tasks: int) -> orchestrator_pb2.StartRunRequest:
    names = [f"t{i}" for i in range(tasks)]
    plan = [
        types_pb2.TaskSpec(task_id=name, prompt="Count.", depends_on=names[max(0, i - 3) : i])
        for i, name in enumerate(names)
    ]
    return start(plan={"tasks": plan})


def test_a_plan_of_ten_times_the_tasks_is_checked_in_about_ten_times_the_time() -> None:
    """Up to the most that a plan may hold; whoever compared each with each would take a hundred."""
    short, long = _long_plan(1_000), _long_plan(10_000)
    assert not faults_of(long)
    assert _cost(long) < 30 * _cost(short)


def _cost(request: Message) -> float:
    """The least seconds of this thread's own time that a check took."""
    check = partial(faults_of, request)
    return min(timeit.repeat(check, timer=time.thread_time, number=1, repeat=5))


def test_a_list_s_limit_says_what_each_item_may_be() -> None:
    assert kinds.many(3, kinds.chars(5)).wording == "3 items, each 5 characters"
