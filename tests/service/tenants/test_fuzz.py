"""Hostile calls to a real server over each store: it answers, or refuses with a reason; never INTERNAL.

Half of the names in them are those of a run that is there, with the token that owns it. A failing call is
told by its number: `STEPWELL_FUZZ=17` makes that one alone.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

import grpc
import grpc.aio
import pytest
from google.protobuf import message_factory
from google.protobuf.message import DecodeError, Message

from stepwell.config import ExecutorSettings
from tests.service.capabilities.conftest import STORES, Served, served_on
from tests.service.conftest import ME, Client, bearer
from tests.service.store_server import TOKEN, StoreServer
from tests.service.tenants.calls import ask
from tests.service.tenants.rows import SERVED_ROWS, Names
from tests.service.tenants.scene import scene
from tests.support.methods import SERVED, STORE
from tests.support.proofs import record
from tests.support.proofs.sizes import size
from tests.unit.fuzz.hostile import Hostile
from tests.unit.fuzz.test_parsers import ONE, SHARE

pytestmark = [pytest.mark.proof, pytest.mark.timeout(300)]
AT_ONCE = 8
STREAMED = 0.2
"""The share of drawn streams that are made: each costs the time until it is silent."""
NEVER = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DATA_LOSS}
LEFT_ALONE = ("Orchestrator/PurgeRuns", "Orchestrator/DeleteRun", "Store/DeleteRun")
"""They'd take away what the names are of."""


def made(number: int, names: Names) -> tuple[str, Message]:
    """Return a call: its method, and its request."""
    rnd = Random(f"call {number}")
    methods = {name: one for name, one in {**SERVED, **STORE}.items() if name not in LEFT_ALONE}
    if rnd.random() > STREAMED:
        methods = {name: one for name, one in methods.items() if not one.server_streaming}
    name = rnd.choice(list(methods))
    method = methods[name]
    hostile = Hostile(rnd, tuple(word for word in names if word))
    request = hostile.message(method.input_type)
    if rnd.random() < 0.2:
        kind = message_factory.GetMessageClass(method.input_type)
        # What is no message the library refuses, before anything of ours sees it.
        with suppress(DecodeError):
            request = kind.FromString(hostile.damaged(request.SerializeToString()))
    return name, request


class Door:
    """The two services over one store."""

    def __init__(self, client: Client, store: Client, names: Names) -> None:
        self.client = client
        self.store = store
        self.names = names
        self.codes: Counter[str] = Counter()

    async def call(self, number: int) -> None:
        name, request = made(number, self.names)
        where, metadata = (self.store, (("authorization", f"Bearer {TOKEN}"),))
        if name in SERVED:
            where, metadata = self.client, bearer("all")
        try:
            async with asyncio.timeout(20):
                answer = await ask(where.channel, name, request, metadata)
        except Exception as error:
            error.add_note(self.describe(number, name, request))
            raise
        assert answer.code not in NEVER, f"{answer}: {self.describe(number, name, request)}"
        self.codes[answer.code.name] += 1

    def describe(self, number: int, name: str, request: Message) -> str:
        return f"{name}, call {number} ({ONE}={number}): {request!s:.1500}"


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_no_call_breaks_a_server(kind: str, tmp_path: Path) -> None:
    began = time.monotonic()
    async with served_on(kind, tmp_path) as served:
        await served.restart(executor=ExecutorSettings(lease_ms=120_000, poll_ms=100))
        door, many = await bombarded(served, tmp_path)
    print(dict(door.codes))
    refused = sum(count for code, count in door.codes.items() if code != "OK")
    figures = {"calls": many, "refused": refused, "INTERNAL": 0}
    command = "make proof ARGS='tests/unit/fuzz'"
    record.keep(
        record.Record(f"fuzz, {served.store_kind}", command, figures, {}, time.monotonic() - began)
    )


async def bombarded(served: Served, folder: Path) -> tuple[Door, int]:
    """Make this store's share of the calls; returns what they met, and how many they were."""
    client = Client(served.target)
    async with scene(client, served.store) as made_up:
        service = StoreServer(served.store, folder)
        await service.start()
        store = Client(service.address)
        door = Door(client, store, made_up.names)
        only = os.environ.get(ONE)
        first = list(STORES).index(served.store_kind)
        count = int(size("fuzzed inputs") * (1 - SHARE) / len(STORES))
        numbers = [int(only)] if only else list(range(first * count, (first + 1) * count))

        async def some(share: list[int]) -> None:
            for number in share:
                await door.call(number)

        async with asyncio.TaskGroup() as group:
            for at in range(AT_ONCE):
                group.create_task(some(numbers[at::AT_ONCE]))
        asked = SERVED_ROWS["Orchestrator/GetRun"](made_up.names)
        answer = await ask(client.channel, "Orchestrator/GetRun", asked, ME)
        assert answer.code is grpc.StatusCode.OK, answer
        await store.channel.close()
        await service.kill()
    await client.channel.close()
    return door, len(numbers)
