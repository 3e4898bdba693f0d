"""A worker in a process of its own, to be stopped: takes steps, waits for a word, reports, says what it heard.

    python -m tests.chaos.zombies.sleeper TARGET QUEUE COUNT

It prints `leased`, then reads a line. Half of the outcomes go over the stream, half go by Complete, and
then all of them once more. It prints the name of each answer.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from queue import SimpleQueue

import grpc

from stepwell_client.v1 import worker_pb2 as wpb
from stepwell_client.v1 import worker_pb2_grpc
from tests.service.conftest import ME, completed


def say(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


def main(target: str, queue: str, count: int) -> None:
    """Play the worker; every answer is on a line of its own."""
    outbox: SimpleQueue[wpb.WorkRequest] = SimpleQueue()
    hello = wpb.Hello(worker_id="stopped", instance_id="only", queues=[queue])
    outbox.put(wpb.WorkRequest(hello=hello, credits=count))
    requests: Iterator[wpb.WorkRequest] = iter(outbox.get, None)
    with grpc.insecure_channel(target) as channel:
        stub = worker_pb2_grpc.WorkerStub(channel)
        stream = stub.Work(requests, metadata=ME)
        got: list[wpb.Assignment] = []
        while len(got) < count:
            got += next(stream).assignments
        say("leased")
        sys.stdin.readline()
        outcomes = [completed(one, b'"too late"') for one in got]
        half = count // 2
        outbox.put(wpb.WorkRequest(outcomes=outcomes[:half]))
        answers: list[wpb.Ack] = []
        while len(answers) < half:
            answers += next(stream).acks
        for part in (outcomes[half:], outcomes):
            answers += stub.Complete(wpb.CompleteRequest(outcomes=part), metadata=ME).acks
        stream.cancel()
    for ack in answers:
        say(wpb.AckStatus.Name(ack.status))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
