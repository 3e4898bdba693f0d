"""Servers that don't answer: attempts, lines for people, and the end of patience, in virtual time."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import grpc
import pytest

from stepwell_client import Budget, Client, NotDone, Unavailable
from stepwell_client.errors import NotSecured
from stepwell_client.internal import Runtime
from stepwell_client.v1 import orchestrator_pb2
from tests.service.client.fakes import TOKEN, End, FakeServer, Script

REFUSED = End(grpc.StatusCode.UNAVAILABLE, "Connection refused")
RUN_ID = "00000000-0000-4000-8000-000000000000"


class VirtualRuntime(Runtime):
    """A clock that goes on where somebody waits; jitter at its longest."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def random(self) -> float:
        return 1.0

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


async def outage(
    server: FakeServer, patience_s: float, caplog: pytest.LogCaptureFixture
) -> tuple[VirtualRuntime, list[float]]:
    """Start a run at a server that refuses; returns the clock, and when that was logged."""
    logged = list[float]()

    class Teller(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            logged.append(runtime.now)

    server.runs.answers["StartRunRequest"] = Script(REFUSED)
    runtime, teller = VirtualRuntime(), Teller()
    logging.getLogger("stepwell_client").addHandler(teller)
    try:
        async with Client(
            server.target, token=TOKEN, reconnect_seconds=patience_s, runtime=runtime
        ) as client:
            with pytest.raises(Unavailable):
                await client.start()
    finally:
        logging.getLogger("stepwell_client").removeHandler(teller)
    return runtime, logged


async def test_without_patience_a_call_ends_after_five_attempts_in_silence(
    server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    runtime, logged = await outage(server, 0, caplog)

    assert (len(server.runs.requests), runtime.now, logged) == (5, pytest.approx(1.5), [])


async def test_untrusted_certificate_is_reported_though_another_address_refuses(
    server: FakeServer,
) -> None:
    """gRPC reports one address of several, now this one and now that."""
    begin = "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: "
    untrusted = End(grpc.StatusCode.UNAVAILABLE, f"{begin}CERTIFICATE_VERIFY_FAILED: expired: OK")
    refused = End(grpc.StatusCode.UNAVAILABLE, f"{begin}Connection refused")
    server.runs.answers["GetRunRequest"] = Script(untrusted, refused)
    async with Client(server.target, token=TOKEN, runtime=VirtualRuntime()) as client:
        with pytest.raises(NotSecured, match="expired"):
            await client.run("00000000-0000-4000-8000-000000000000").get()
    assert len(server.runs.requests) == 5


async def test_an_outage_is_logged_within_two_seconds_and_then_rarely(
    server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    runtime, logged = await outage(server, 600, caplog)

    assert 600 <= runtime.now < 603
    assert logged[0] < 2
    assert all(later > sooner for sooner, later in pairwise(b - a for a, b in pairwise(logged)))
    assert 5 < len(logged) < 9
    assert caplog.messages[0] == (
        f"no server answers at {server.target}; start one with `stepwell serve`;"
        " trying again for 599 s"
    )


COMMANDS: dict[str, Callable[[Client], Awaitable[Any]]] = {
    "StartRun": lambda client: client.start(),
    "ForkRun": lambda client: client.run(RUN_ID).fork(),
    "ResumeRun": lambda client: client.run(RUN_ID).resume(),
    "PauseRun": lambda client: client.run(RUN_ID).pause(),
    "CancelRun": lambda client: client.run(RUN_ID).cancel(),
    "StopRun": lambda client: client.run(RUN_ID).stop(),
    "SendSignal": lambda client: client.run(RUN_ID).signal("note", 1),
    "AppendToThread": lambda client: client.thread("t").append("user", "hello"),
    "ForkThread": lambda client: client.thread("t").fork("u"),
    "SetThreadState": lambda client: client.thread("t").set_state(1),
    "SetThreadLabels": lambda client: client.thread("t").set_labels({}),
    "RetryTask": lambda client: client.run(RUN_ID).retry_task("a"),
    "SkipTask": lambda client: client.run(RUN_ID).skip_task("a"),
    "RaiseBudget": lambda client: client.run(RUN_ID).raise_budget(Budget(tasks=5)),
    "ResolveExecution": lambda client: client.run(RUN_ID).resolve("task:a#1", NotDone()),
    "AnswerQuestion": lambda client: client.run(RUN_ID).answer("question:task:a#1", True),
}


@pytest.mark.parametrize("method", COMMANDS)
async def test_command_is_repeated_as_one_request_while_the_patience_lasts(
    server: FakeServer, method: str
) -> None:
    answer = getattr(orchestrator_pb2, f"{method}Response")()
    server.runs.answers[f"{method}Request"] = Script(*[REFUSED] * 12, answer)
    async with Client(server.target, token=TOKEN, runtime=VirtualRuntime()) as client:
        await COMMANDS[method](client)
        server.runs.answers[f"{method}Request"] = Script(REFUSED)
        requests = list(server.runs.requests)
        with pytest.raises(Unavailable):
            await COMMANDS[method](client)

    assert len(requests) == 13
    assert len({request.request_id for request in requests}) == 1
    assert requests[0].request_id


@pytest.mark.parametrize(
    ("call", "attempts"),
    [
        (lambda client: client.run(RUN_ID).get(), 5),
        (lambda client: client.run(RUN_ID).check_fork(), 5),
        (lambda client: client.purge(), 5),
        (lambda client: client.run(RUN_ID).delete(), 1),
    ],
    ids=["get", "check_fork", "purge", "delete"],
)
async def test_other_calls_end_after_a_few_attempts(
    server: FakeServer, call: Callable[[Client], Awaitable[Any]], attempts: int
) -> None:
    for name in ("GetRun", "ForkRun", "PurgeRuns", "DeleteRun"):
        server.runs.answers[f"{name}Request"] = Script(REFUSED)
    async with Client(server.target, token=TOKEN, runtime=VirtualRuntime()) as client:
        with pytest.raises(Unavailable):
            await call(client)

    assert len(server.runs.requests) == attempts
