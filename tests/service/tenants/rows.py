"""A row for every method: the request that asks for something of a run, given the names in it.

The names may be one's own, another tenant's, or invented; a request that names nothing asks for all that
its caller may see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from google.protobuf.message import Message

from stepwell_client.store.v1 import store_pb2 as spb
from stepwell_client.v1 import orchestrator_pb2 as opb
from stepwell_client.v1 import types_pb2 as tpb
from stepwell_client.v1 import worker_pb2 as wpb


class Names(NamedTuple):
    """The names that a caller has to know to reach something."""

    tenant_id: str
    run_id: str
    question_id: str
    execution_id: str
    """An execution of a leased task of the run."""
    lease_token: str
    request_id: str
    """The request id of the run's start."""
    worker_id: str
    task_id: str = "leased"
    answer_token: str = "none"
    """A question's, which is a right by itself."""
    thread_id: str = "thread-of-a"


Row = Callable[[Names], Message]


def _payload() -> tpb.Payload:
    return tpb.Payload(data=b'"what a stranger wrote"')


def _start(n: Names) -> Message:
    return opb.StartRunRequest(goal="a goal of my own", request_id=n.request_id, queue="own")


def _answer(n: Names) -> Message:
    return opb.AnswerQuestionRequest(run_id=n.run_id, question_id=n.question_id, answer=_payload())


def _resolve(n: Names) -> Message:
    finding = tpb.FINDING_DONE
    return opb.ResolveExecutionRequest(
        run_id=n.run_id, execution_id=n.execution_id, finding=finding, result=_payload()
    )


def _raise_budget(n: Names) -> Message:
    return opb.RaiseBudgetRequest(run_id=n.run_id, budget=tpb.Budget(tasks=500))


def _lease(n: Names) -> Any:
    """Return the fields that name a lease."""
    return {"lease": _held(n)}


def _held(n: Names) -> wpb.Lease:
    return wpb.Lease(run_id=n.run_id, execution_id=n.execution_id, token=n.lease_token)


def _outcome(n: Names) -> wpb.Outcome:
    done = wpb.Outcome.Completed(result=_payload())
    return wpb.Outcome(delivery_id="d", **_lease(n), completed=done)


def _work(n: Names) -> Message:
    held = _held(n)
    hello = wpb.Hello(worker_id=n.worker_id, instance_id="another", queues=["q"], held=[held])
    begin = wpb.Begin(delivery_id="b", **_lease(n))
    return wpb.WorkRequest(hello=hello, credits=5, begins=[begin])


def _heartbeat(n: Names) -> Message:
    beat = wpb.LeaseHeartbeat(**_lease(n), progress=_payload())
    return wpb.HeartbeatRequest(heartbeats=[beat])


def _append(n: Names) -> Message:
    said = "what a stranger wrote"
    messages = [tpb.Message(role="user", content=said)]
    item = wpb.Appended(**_lease(n), logs=[wpb.LogLine(text=said)], messages=messages)
    return wpb.AppendOutputRequest(appended=[item])


def _record(n: Names) -> Message:
    entries = [tpb.JournalEntry(key="a stranger's call", value=_payload())]
    item = wpb.JournalWrite(**_lease(n), delivery_id="r", entries=entries)
    return wpb.WriteJournalRequest(writes=[item])


SERVED_ROWS: Mapping[str, Row] = {
    "Orchestrator/StartRun": _start,
    "Orchestrator/GetRun": lambda n: opb.GetRunRequest(run_id=n.run_id, version=1),
    "Orchestrator/ListRuns": lambda n: opb.ListRunsRequest(parent_run_id=n.run_id),
    "Orchestrator/ListTasks": lambda n: opb.ListTasksRequest(run_id=n.run_id, view=tpb.VIEW_FULL),
    "Orchestrator/ListExecutions": lambda n: opb.ListExecutionsRequest(run_id=n.run_id),
    "Orchestrator/ListResults": lambda n: opb.ListResultsRequest(run_id=n.run_id),
    "Orchestrator/WaitRun": lambda n: opb.WaitRunRequest(
        run_id=n.run_id, timeout={"nanos": 20_000_000}
    ),
    "Orchestrator/WatchRun": lambda n: opb.WatchRunRequest(run_id=n.run_id),
    "Orchestrator/WatchRuns": lambda n: opb.WatchRunsRequest(),
    "Orchestrator/ListPlans": lambda n: opb.ListPlansRequest(run_id=n.run_id, view=tpb.VIEW_FULL),
    "Orchestrator/ListCheckpoints": lambda n: opb.ListCheckpointsRequest(run_id=n.run_id),
    "Orchestrator/ListQuestions": lambda n: opb.ListQuestionsRequest(run_id=n.run_id),
    "Orchestrator/WatchLogs": lambda n: opb.WatchLogsRequest(
        run_id=n.run_id, execution_id=n.execution_id, follow=True
    ),
    "Orchestrator/ListMessages": lambda n: opb.ListMessagesRequest(
        run_id=n.run_id, task_id=n.task_id
    ),
    "Orchestrator/ReadTranscript": lambda n: opb.ReadTranscriptRequest(
        run_id=n.run_id, execution_id=n.execution_id
    ),
    "Orchestrator/ListJournal": lambda n: opb.ListJournalRequest(
        run_id=n.run_id, task_id=n.task_id, view=tpb.VIEW_FULL
    ),
    "Orchestrator/ListSignals": lambda n: opb.ListSignalsRequest(
        run_id=n.run_id, view=tpb.VIEW_FULL
    ),
    "Orchestrator/GetThread": lambda n: opb.GetThreadRequest(thread_id=n.thread_id),
    "Orchestrator/ListThreads": lambda n: opb.ListThreadsRequest(),
    "Orchestrator/ListThreadMessages": lambda n: opb.ListThreadMessagesRequest(
        thread_id=n.thread_id
    ),
    "Orchestrator/ListWorkers": lambda n: opb.ListWorkersRequest(),
    "Orchestrator/ListQueues": lambda n: opb.ListQueuesRequest(),
    "Orchestrator/GetServerInfo": lambda n: opb.GetServerInfoRequest(),
    "Worker/Heartbeat": _heartbeat,
    "Worker/AppendOutput": _append,
    "Worker/ReadResults": lambda n: wpb.ReadResultsRequest(**_lease(n)),
    "Worker/WriteJournal": _record,
    "Worker/ReadJournal": lambda n: wpb.ReadJournalRequest(**_lease(n)),
    "Worker/ReadThread": lambda n: wpb.ReadThreadRequest(**_lease(n)),
    "Worker/Work": _work,
    "Worker/ReportOutcomes": lambda n: wpb.ReportOutcomesRequest(outcomes=[_outcome(n)]),
    "Orchestrator/AnswerQuestion": _answer,
    "Orchestrator/AnswerByToken": lambda n: opb.AnswerByTokenRequest(
        token=n.answer_token, answer=_payload()
    ),
    "Orchestrator/ResolveExecution": _resolve,
    "Orchestrator/RaiseBudget": _raise_budget,
    "Orchestrator/RetryTask": lambda n: opb.RetryTaskRequest(run_id=n.run_id, task_id=n.task_id),
    "Orchestrator/SkipTask": lambda n: opb.SkipTaskRequest(run_id=n.run_id, task_id=n.task_id),
    "Orchestrator/ForkRun": lambda n: opb.ForkRunRequest(run_id=n.run_id, version=1, queue="own"),
    "Orchestrator/PauseRun": lambda n: opb.PauseRunRequest(run_id=n.run_id),
    "Orchestrator/ResumeRun": lambda n: opb.ResumeRunRequest(run_id=n.run_id),
    "Orchestrator/SendSignal": lambda n: opb.SendSignalRequest(run_id=n.run_id, name="note"),
    # Before the writes, which make the thread if it is missing.
    "Orchestrator/ForkThread": lambda n: opb.ForkThreadRequest(
        thread_id=n.thread_id, new_thread_id=n.request_id
    ),
    "Orchestrator/DeleteThread": lambda n: opb.DeleteThreadRequest(
        thread_id=n.thread_id, force=True
    ),
    "Orchestrator/AppendToThread": lambda n: opb.AppendToThreadRequest(
        thread_id=n.thread_id,
        messages=[tpb.ThreadMessageDraft(role="user", content=_payload())],
    ),
    "Orchestrator/SetThreadState": lambda n: opb.SetThreadStateRequest(
        thread_id=n.thread_id, state=_payload()
    ),
    "Orchestrator/SetThreadLabels": lambda n: opb.SetThreadLabelsRequest(
        thread_id=n.thread_id, labels={"a": "b"}
    ),
    "Orchestrator/StopRun": lambda n: opb.StopRunRequest(run_id=n.run_id),
    "Orchestrator/CancelRun": lambda n: opb.CancelRunRequest(run_id=n.run_id),
    "Orchestrator/DeleteRun": lambda n: opb.DeleteRunRequest(run_id=n.run_id),
    "Orchestrator/PurgeRuns": lambda n: opb.PurgeRunsRequest(),
}
"""In an order in which the owner may call them all: what looks first, what ends last."""


def _page_row(arm: str) -> Row:
    """Return a request for a page of one kind, by the names that it takes."""

    def make(n: Names) -> Message:
        request = spb.PageRequest()
        query = getattr(request, arm)
        query.SetInParent()
        for field in query.DESCRIPTOR.fields:
            if field.name == "limit":
                query.limit = 100
            elif field.name in Names._fields:
                setattr(query, field.name, getattr(n, field.name))
        return request

    return make


STORE_ROWS: Mapping[str, Row] = {
    "Store/GetRun": lambda n: spb.GetRunRequest(tenant_id=n.tenant_id, run_id=n.run_id),
    "Store/Load": lambda n: spb.LoadRequest(tenant_id=n.tenant_id, run_id=n.run_id),
    "Store/ReadPayloads": lambda n: spb.ReadPayloadsRequest(
        tenant_id=n.tenant_id, run_id=n.run_id, keys=["run", "task:done#1"], texts=True
    ),
    "Store/ReadPlan": lambda n: spb.ReadPlanRequest(
        tenant_id=n.tenant_id, run_id=n.run_id, revision=1
    ),
    "Store/ReadBase": lambda n: spb.ReadBaseRequest(
        tenant_id=n.tenant_id, run_id=n.run_id, version=1_000
    ),
    "Store/ReadEvents": lambda n: spb.ReadEventsRequest(
        tenant_id=n.tenant_id, run_id=n.run_id, limit=100
    ),
    "Store/ReadQuestions": lambda n: spb.ReadQuestionsRequest(
        tenant_id=n.tenant_id, run_id=n.run_id, question_ids=[n.question_id]
    ),
    **{
        f"Store/Page {arm}": _page_row(arm)
        for arm in (
            *("tasks", "executions", "messages", "checkpoints", "logs"),
            *("presences", "leases", "feed", "journal"),
        )
    },
    "Store/SwapKeys": lambda n: spb.SwapKeysRequest(
        tenant_id=n.tenant_id, swaps=[spb.KeySwap(key="key-of-a")]
    ),
}
"""Methods that read for one tenant. Their callers are servers, which name the tenant."""

STORE_WITHOUT_ROW: Mapping[str, str] = {
    "Store/Commit": "writes: the conformance suite's tenants",
    "Store/Renew": "writes: the conformance suite's tenants",
    "Store/WriteJournal": "writes: the conformance suite's tenants",
    "Store/PutPresence": "writes: the conformance suite's tenants",
    "Store/AppendLogs": "writes: the conformance suite's tenants",
    "Store/DeleteRun": "writes: the conformance suite's tenants",
    "Store/RemoveLogs": "writes: the conformance suite's tenants",
    "Store/Claim": "names its tenants in a scope: the conformance suite's tenants",
    "Store/Subscribe": "hints over all tenants; a server passes on its caller's own",
    "Store/Describe": "nothing in it is a tenant's",
}
"""Methods that have no row, and why."""
