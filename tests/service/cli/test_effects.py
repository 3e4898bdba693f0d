"""`stepwell resolve`, and how `show`, `ls` and `watch` tell of unknown outcomes and of keys."""

from __future__ import annotations

import queue
from collections.abc import Iterator

import grpc

from stepwell_client.v1 import worker_pb2, worker_pb2_grpc
from tests.service.cli.world import Terminal, plan_file, start

CHARGE = {"id": "charge", "type": "echo", "effect": "at_most_once"}


def begin_and_die(terminal: Terminal, name: str) -> None:
    """Begin the queue's step, and come back as a process that knows nothing of it."""
    token = (terminal.folder / "state" / "stepwell" / "token").read_text().strip()
    metadata = (("authorization", f"Bearer {token}"),)
    with grpc.insecure_channel(terminal.variables["STEPWELL_TARGET"]) as channel:
        stub = worker_pb2_grpc.WorkerStub(channel)
        hello = worker_pb2.Hello(worker_id=name, instance_id="one", queues=[name])
        first = worker_pb2.WorkRequest(hello=hello, credits=1)
        requests = Requests(first)
        answers = stub.Work(iter(requests), metadata=metadata)
        got = next(one.assignments[0] for one in answers if one.assignments)
        requests.send(
            worker_pb2.WorkRequest(
                begins=[
                    worker_pb2.Begin(
                        delivery_id="1",
                        run_id=got.run.spec.run_id,
                        execution_id=got.execution.execution_id,
                        lease_token=got.lease_token,
                    )
                ]
            )
        )
        next(one for one in answers if one.acks)
        hello.instance_id = "two"
        newer = Requests(worker_pb2.WorkRequest(hello=hello))
        next(iter(stub.Work(iter(newer), metadata=metadata)))
        requests.end()
        newer.end()


class Requests:
    """Requests of a stream, one after the other, until it is to end."""

    def __init__(self, first: worker_pb2.WorkRequest) -> None:
        self._queue: queue.Queue[worker_pb2.WorkRequest | None] = queue.Queue()
        self.send(first)

    def send(self, request: worker_pb2.WorkRequest) -> None:
        self._queue.put(request)

    def end(self) -> None:
        self._queue.put(None)

    def __iter__(self) -> Iterator[worker_pb2.WorkRequest]:
        while (request := self._queue.get()) is not None:
            yield request


def waiting(terminal: Terminal, name: str) -> str:
    """Return a run that waits since nobody knows what came of its task."""
    run_id = start(terminal, CHARGE, queue=name)
    begin_and_die(terminal, name)
    followed = terminal("watch", run_id)
    assert followed.code == 4, followed.err
    assert "nobody knows what came of it" in followed.out
    return run_id


def test_show_and_ls_say_which_execution_and_since_when(terminal: Terminal) -> None:
    run_id = waiting(terminal, "seen")
    said = "nobody knows what came of task:charge#1, for "
    shown = terminal("show", run_id)
    assert said in shown.out
    assert "stepwell resolve" in shown.err
    listed = terminal("ls", "--blocked-on", "unknown-outcome", "--queue", "seen", COLUMNS="200")
    assert said in listed.out


def test_a_person_says_that_it_was_done(terminal: Terminal) -> None:
    run_id = waiting(terminal, "done")
    answer = terminal("resolve", run_id, "charge", "--done", "--result", '"paid"')
    assert answer.code == 0, answer.err
    assert answer.out == f"task:charge#1 of run {run_id[:8]} is settled\n"
    assert terminal("show", run_id, "--result", "--json").json == {"answer": {"charge": "paid"}}
    lines = terminal("watch", run_id).out
    assert "it is known what came of it: a person: its effect took place" in lines


def test_a_person_says_that_it_was_not_done(terminal: Terminal) -> None:
    run_id = waiting(terminal, "not-done")
    answer = terminal("resolve", run_id, "task:charge#1", "--not-done", "--json")
    assert answer.json["changed"]
    executions = terminal("show", run_id, "--json").json["executions"]
    assert [one["executionId"] for one in executions] == ["task:charge#1", "task:charge#2"]


def test_a_person_says_that_it_failed(terminal: Terminal) -> None:
    run_id = waiting(terminal, "failed")
    assert terminal("resolve", run_id, "charge", "--done", "--failed", "no money").code == 0
    assert "no money" in terminal("show", run_id).out


def test_refused_resolution_names_its_reason(terminal: Terminal) -> None:
    run_id = start(terminal, CHARGE, queue="nobody")
    for arguments, said in (
        (["charge", "--done"], "no execution whose outcome is unknown"),
        (["task:charge#1", "--done"], "whose outcome is unknown"),
        (["charge"], "--done or --not-done"),
        (["charge", "--not-done", "--result", "1"], "go with --done"),
        (["charge", "--done", "--result", "{"], "--result is no JSON"),
        (["charge", "--done", "--result", "1", "--failed", "x"], "don't go together"),
    ):
        answer = terminal("resolve", run_id, *arguments)
        assert answer.code != 0
        assert said in answer.err


def test_a_task_that_took_a_result_says_deduplicated(terminal: Terminal) -> None:
    tasks = [{"id": name, "type": "echo", "input": 1, "idempotency_key": "k"} for name in "ab"]
    plan = plan_file(terminal.folder, tasks)
    followed = terminal("run", "--plan", plan)
    assert followed.code == 0, followed.err
    said = "DEDUPLICATED: took the result of task:a#1"
    assert said in followed.out
    (run,) = terminal("ls", "-n", "1", "--json").json["runs"]
    assert said in terminal("show", run["spec"]["runId"], COLUMNS="200").out
