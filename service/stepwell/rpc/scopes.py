"""The scope that each method needs. A method that is missing here stops the server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from stepwell.config import SettingsRefused
from stepwell.wire.store import METHODS

RUN_READ: Final = "run:read"
RUN_WRITE: Final = "run:write"
WORKER: Final = "worker"
STORE: Final = "store"
ADMIN: Final = "admin"
"""The scope of destructive calls: deleting runs."""
ALL: Final = frozenset({RUN_READ, RUN_WRITE, WORKER, STORE, ADMIN})
ANY: Final = "*"
"""Any valid credential."""
NONE: Final = ""
"""No credential, and no limits: for health only."""

QUESTION: Final = "question"
"""No credential: the request has a question's token."""

_ORCHESTRATOR: dict[str, str] = {
    "StartRun": RUN_WRITE,
    "GetRun": RUN_READ,
    "ListRuns": RUN_READ,
    "ListTasks": RUN_READ,
    "ListExecutions": RUN_READ,
    "ListResults": RUN_READ,
    "WaitRun": RUN_READ,
    "WatchRun": RUN_READ,
    "WatchRuns": RUN_READ,
    "ResumeRun": RUN_WRITE,
    "PauseRun": RUN_WRITE,
    "CancelRun": RUN_WRITE,
    "DeleteRun": ADMIN,
    "ForkRun": RUN_WRITE,
    "ListPlans": RUN_READ,
    "ListCheckpoints": RUN_READ,
    "ListQuestions": RUN_READ,
    "AnswerQuestion": RUN_WRITE,
    "AnswerByToken": QUESTION,
    "RaiseBudget": RUN_WRITE,
    "ResolveExecution": RUN_WRITE,
    "RetryTask": RUN_WRITE,
    "SkipTask": RUN_WRITE,
    "StopRun": RUN_WRITE,
    "SendSignal": RUN_WRITE,
    "ListSignals": RUN_READ,
    "GetThread": RUN_READ,
    "ListThreads": RUN_READ,
    "ListThreadMessages": RUN_READ,
    "AppendToThread": RUN_WRITE,
    "SetThreadState": RUN_WRITE,
    "SetThreadLabels": RUN_WRITE,
    "ForkThread": RUN_WRITE,
    "DeleteThread": ADMIN,
    "WatchLogs": RUN_READ,
    "ListMessages": RUN_READ,
    "ReadTranscript": RUN_READ,
    "ListJournal": RUN_READ,
    "PurgeRuns": ADMIN,
    "ListWorkers": RUN_READ,
    "ListQueues": RUN_READ,
    "GetServerInfo": ANY,
}
_WORKER: dict[str, str] = {
    "Work": WORKER,
    "ReportOutcomes": WORKER,
    "Heartbeat": WORKER,
    "AppendOutput": WORKER,
    "ReadResults": WORKER,
    "WriteJournal": WORKER,
    "ReadJournal": WORKER,
    "ReadThread": WORKER,
}
_STORE = ("Subscribe", *(method.rpc for method in METHODS.values()))

SCOPES: Mapping[str, str] = {
    **{f"/stepwell.v1.Orchestrator/{name}": scope for name, scope in _ORCHESTRATOR.items()},
    **{f"/stepwell.v1.Worker/{name}": scope for name, scope in _WORKER.items()},
    **{f"/stepwell.store.v1.Store/{name}": STORE for name in _STORE},
    "/grpc.health.v1.Health/Check": NONE,
    "/grpc.health.v1.Health/Watch": NONE,
    "/grpc.health.v1.Health/List": NONE,
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": ANY,
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": ANY,
}
"""The scope of each method, by its full name."""


def refuse_undeclared(methods: Iterable[str]) -> None:
    """Raise if a served method has no scope.

    Raises:
        SettingsRefused: the message has the names.
    """
    undeclared = sorted(set(methods) - SCOPES.keys())
    if undeclared:
        raise SettingsRefused(
            f"no scope is declared for {', '.join(undeclared)}: add it in stepwell.rpc.scopes"
        )
