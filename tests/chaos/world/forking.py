"""A program that makes a client, forks, and calls from both processes; it prints the results as JSON.

    python -m tests.chaos.world.forking ORDER

The child is killed by an alarm if its call hangs.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from stepwell_client import Client, StepwellClientError, SyncClient

ALARM_S = 50
FORKS = multiprocessing.get_context("fork")


def call(client: SyncClient) -> str:
    return "ok" if client.start("from a fork", queue="unserved").id else "no id"


def call_aio() -> str:
    async def start() -> str:
        async with Client() as client:
            run = await client.start("from a fork", queue="unserved")
            return "ok" if run.id else "no id"

    return asyncio.run(start())


def child(answers: Connection, work: Callable[[], str]) -> None:
    signal.alarm(ALARM_S)
    try:
        answers.send(work())
    except StepwellClientError as error:
        answers.send(f"{type(error).__name__}: {error.message}")


def fork(work: Callable[[], str]) -> Callable[[], str]:
    """Fork a child that works; return what waits for its answer."""
    ours, theirs = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=child, args=(theirs, work))
    process.start()
    theirs.close()

    def wait() -> str:
        try:
            answer = str(ours.recv())
        except EOFError:
            answer = "hangs"
        process.join()
        return answer

    return wait


def used(client: SyncClient) -> list[str]:
    call(client)
    return [fork(lambda: call(client))()]


def unused(client: SyncClient) -> list[str]:
    return [fork(lambda: call(client))()]


def closed(client: SyncClient) -> list[str]:
    call(client)
    wait = fork(lambda: call(client))
    client.close()
    return [wait()]


def aio(client: SyncClient) -> list[str]:
    """Fork while a client of asyncio is open."""

    async def main() -> list[str]:
        async with Client() as other:
            await other.start("from a parent", queue="unserved")
            waits = [fork(call_aio), fork(lambda: call(client))]
            return [await asyncio.to_thread(wait) for wait in waits]

    return asyncio.run(main())


ORDERS: dict[str, Callable[[SyncClient], list[str]]] = {
    "used": used,
    "unused": unused,
    "closed": closed,
    "aio": aio,
}


def main() -> None:
    order = sys.argv[1]
    client = SyncClient()
    found: dict[str, Any] = {"children": ORDERS[order](client)}
    if order == "closed":
        client = SyncClient()
    found["parent"] = call(client)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
