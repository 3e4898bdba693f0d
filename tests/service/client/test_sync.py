"""The synchronous client, without a network: grpcio-testing plays the server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc
import grpc_testing
import pytest

from stepwell_client import (
    RunStatus,
    SyncClient,
)
from stepwell_client.v1 import orchestrator_pb2, types_pb2
from tests.service.client.fakes import FastRuntime, a_run, events, watch_end
from tests.support.patience import PATIENCE_S
from tests.support.steps import RUN_ID

SERVICE = orchestrator_pb2.DESCRIPTOR.services_by_name["Orchestrator"]
FINISHED = orchestrator_pb2.WATCH_END_REASON_FINISHED


class Rig:
    """A client in a thread, and the channel whose other end the test is."""

    def __init__(self) -> None:
        self.channel = grpc_testing.channel([SERVICE], grpc_testing.strict_real_time())
        self.client = SyncClient(
            "127.0.0.1:1", token="secret", channel=self.channel, runtime=FastRuntime()
        )
        self._pool = futures.ThreadPoolExecutor(1)

    def do(self, work: Callable[[SyncClient], Any]) -> futures.Future[Any]:
        return self._pool.submit(work, self.client)

    def answer(
        self, method: str, response: Any = None, code: grpc.StatusCode = grpc.StatusCode.OK
    ) -> Any:
        """Take the next call of a method, answer it, and return its request."""
        metadata, request, rpc = self.channel.take_unary_unary(SERVICE.methods_by_name[method])
        assert ("authorization", "Bearer secret") in metadata
        rpc.send_initial_metadata(())
        rpc.terminate(response, (), code, "said the server")
        return request

    def stream(
        self, messages: list[Any], code: grpc.StatusCode = grpc.StatusCode.OK
    ) -> orchestrator_pb2.WatchRunRequest:
        """Play a stream. With an error: no messages, grpcio-testing would drop them."""
        method = SERVICE.methods_by_name["WatchRun"]
        _, request, rpc = self.channel.take_unary_stream(method)
        seen = type(request).FromString(request.SerializeToString())
        rpc.send_initial_metadata(())
        for message in messages:
            rpc.send_response(message)
        rpc.terminate((), code, "")
        return seen

    def close(self) -> None:
        self._pool.shutdown(wait=False)


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    made.close()


def test_a_call_is_repeated_while_the_server_is_unavailable(rig: Rig) -> None:
    got = rig.do(lambda client: client.run(RUN_ID).get())
    rig.answer("GetRun", code=grpc.StatusCode.UNAVAILABLE)
    run = a_run(types_pb2.RUN_STATUS_PAUSED)
    rig.answer("GetRun", orchestrator_pb2.GetRunResponse(run=run))

    assert got.result(PATIENCE_S).status == RunStatus.PAUSED


@pytest.mark.usefixtures("scripted_server")
def test_a_watch_comes_again_without_gap_or_repeat(rig: Rig) -> None:
    seen = rig.do(lambda client: [event.number for event in client.run(RUN_ID).watch(after=2)])
    tokens = [
        rig.stream([events(3, 4)]).resume_token,
        rig.stream([], grpc.StatusCode.UNAVAILABLE).resume_token,
        rig.stream([], grpc.StatusCode.CANCELLED).resume_token,
        rig.stream([events(4, 5)]).resume_token,
        rig.stream([events(6), watch_end(FINISHED)]).resume_token,
    ]

    assert seen.result(PATIENCE_S) == [3, 4, 5, 6]
    assert tokens == ["2", "4", "4", "4", "5"]


def test_leaving_the_loop_cancels_the_call(rig: Rig) -> None:
    def first(client: SyncClient) -> int:
        with client.run(RUN_ID).watch() as watch:
            for event in watch:
                return event.number
        return 0

    seen = rig.do(first)
    _, _, rpc = rig.channel.take_unary_stream(SERVICE.methods_by_name["WatchRun"])
    rpc.send_initial_metadata(())
    rpc.send_response(events(1))

    assert seen.result(PATIENCE_S) == 1
    assert rpc.cancelled() is None


def test_watch_that_another_thread_closes_while_its_stream_opens_ends(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stream(list[Any]):
        cancelled = False

        def cancel(self) -> None:
            self.cancelled = True

        def __next__(self) -> Any:
            return self.pop(0)

    stream = Stream([events(1), watch_end(FINISHED)])
    watch = rig.client.run(RUN_ID).watch()

    def open_and_close(*_: object) -> Stream:
        watch.close()
        return stream

    monkeypatch.setattr(rig.client.calls.caller, "open_stream", open_and_close)

    assert list(watch) == []
    assert stream.cancelled
