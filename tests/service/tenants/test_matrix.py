"""Every method × own, foreign and missing names, foreign, forged and no credentials (T1, T2, T3).

The methods are those of the descriptors: a new one without a row fails.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import grpc
import pytest
from google.protobuf import message_factory
from google.protobuf.message import Message
from msgspec.structs import replace

from stepwell.config import ExecutorSettings
from stepwell.core.port import Commit, Store
from stepwell.core.records.states import Verdict
from stepwell.rpc import scopes
from stepwell.runtime import SystemRuntime
from stepwell_testkit.conformance.builders import named
from tests.service.capabilities.conftest import Served
from tests.service.conftest import TOKENS, Client, Metadata, bearer
from tests.service.console.conftest import console_of
from tests.service.console.http import Http
from tests.service.store_server import FOREIGN_TOKEN, TOKEN, StoreServer
from tests.service.tenants.calls import Answer, ask, ask_by_http
from tests.service.tenants.rows import SERVED_ROWS, STORE_ROWS, STORE_WITHOUT_ROW, Names
from tests.service.tenants.scene import OWNER, SECRET, STRANGER, Scene, scene
from tests.service.zombies.rows import differences, rows_of
from tests.support.methods import SERVED, STORE, path_of
from tests.support.proofs import record

pytestmark = [pytest.mark.proof, pytest.mark.timeout(110)]
COMMAND = "make proof ARGS='tests/service/tenants'"
_OF_ITS_OWN = re.compile(r'replica_id: "[^"]*"|(server|created)_time \{[^}]*\}')
BY_NOBODY = ("Orchestrator/StartRun", "Orchestrator/GetServerInfo", "Orchestrator/WatchRuns")
BY_NOBODY += ("Orchestrator/PurgeRuns", "Orchestrator/ListRuns")
BY_NOBODY += ("Orchestrator/ListWorkers", "Orchestrator/ListQueues", "Orchestrator/ListThreads")
"""Methods that name nothing of a run's: whoever calls them has an answer of his own."""
BY_TOKEN = "Orchestrator/AnswerByToken"
"""The method to which no name opens, but a question's token, whoever has it."""
UNNAMED = ("Orchestrator/ListRuns", "Orchestrator/ListQuestions", "Orchestrator/WatchRuns")
UNNAMED += ("Orchestrator/PurgeRuns", "Orchestrator/ListWorkers", "Orchestrator/ListQueues")
UNNAMED += ("Orchestrator/ListThreads",)
"""Methods that show all that is their caller's, where their request names nothing."""
READS = tuple(n for n in SERVED_ROWS if re.match("Orchestrator/(Get|List|Read|Watch|Wait)", n))
ORCHESTRATOR = frozenset(name for name in SERVED_ROWS if name.startswith("Orchestrator/"))
"""The methods that the console's port has."""
TRANSPORTS = ("grpc", "http")
FORGED = (("x-tenant-id", OWNER), ("tenant", OWNER), ("tenant-id", OWNER))


class World(NamedTuple):
    """The scene, and how it is reached."""

    served: Served
    client: Client
    scene: Scene
    by_http: Http | None = None
    """The port that calls go to; None: they go to gRPC's."""

    async def asks(self, name: str, names: Names, who: str) -> Answer:
        """Call as somebody; a stranger always says that it is the owner, and has no credential for it."""
        metadata = bearer(who) if who == "all" else (*bearer(who), *FORGED)
        return await self.ask(name, SERVED_ROWS[name](names), metadata)

    async def ask(self, name: str, request: Message, metadata: Metadata) -> Answer:
        """Call with this metadata."""
        if self.by_http is None:
            return await ask(self.client.channel, name, request, metadata)
        return await ask_by_http(self.by_http, name, request, metadata)

    @property
    def methods(self) -> list[str]:
        """The methods that the port has."""
        return [name for name in SERVED_ROWS if self.by_http is None or name in ORCHESTRATOR]


@asynccontextmanager
async def world(served: Served, transport: str = "grpc") -> AsyncIterator[World]:
    # Leases that none of these tests outlives.
    await served.restart(executor=ExecutorSettings(lease_ms=120_000, poll_ms=100))
    client = Client(served.target)
    try:
        async with scene(client, served.store) as made:
            if transport == "grpc":
                yield World(served, client, made)
                return
            async with console_of(served.server, SystemRuntime()) as url:
                http = Http(url)
                async with http.client:
                    yield World(served, client, made, http)
    finally:
        await client.channel.close()


def nameless(answer: Answer, names: Names) -> Answer:
    """Return an answer without the names that its caller gave."""
    text = answer.text
    for word in (names.run_id, names.question_id, names.lease_token, names.thread_id):
        text = text.replace(word, "…")
    return answer._replace(text=text)


def test_every_method_has_a_row_or_a_reason() -> None:
    assert SERVED.keys() == SERVED_ROWS.keys()
    # A page has a row for each kind: `Store/Page tasks`.
    rows = {name.partition(" ")[0] for name in STORE_ROWS}
    assert STORE.keys() == rows | STORE_WITHOUT_ROW.keys()
    assert not rows & STORE_WITHOUT_ROW.keys()


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_T2_a_foreign_name_is_answered_as_a_missing_one(
    served: Served, transport: str
) -> None:
    async with world(served, transport) as here:
        names, missing = here.scene
        before = await rows_of(here.served.store, OWNER, workers=[names.worker_id])
        for name in here.methods:
            if name in ("Orchestrator/StartRun", BY_TOKEN):
                continue
            foreign, nobodys = await asyncio.gather(
                here.asks(name, names, "foreign"), here.asks(name, missing, "foreign")
            )
            assert stable(nameless(foreign, names)) == stable(nameless(nobodys, missing)), name
            assert SECRET not in foreign.text, name
        started = await here.asks("Orchestrator/StartRun", names, "foreign")
        assert "created: true" in started.text
        assert SECRET not in started.text
        for name in UNNAMED:
            everything = await here.asks(name, names._replace(run_id=""), "foreign")
            assert names.run_id not in everything.text, name
            assert SECRET not in everything.text, name
        # A token is of its own question, whatever names stand beside it.
        guess = names._replace(answer_token=missing.answer_token)
        guessed = await here.asks(BY_TOKEN, guess, "foreign")
        assert (guessed.code, guessed.reason) == (grpc.StatusCode.NOT_FOUND, "TOKEN_NOT_FOUND")
        assert names.run_id not in guessed.text
        # Nothing of all that has touched the owner's run (T3).
        after = await rows_of(here.served.store, OWNER, workers=[names.worker_id])
        assert not differences(before, after)

        # By the same names the owner reaches it: each request asks for something that is there.
        for name in here.methods:
            if name in BY_NOBODY:
                continue
            own = nameless(await here.asks(name, names, "all"), names)
            nobodys = nameless(await here.asks(name, missing, "all"), missing)
            assert own.code is not grpc.StatusCode.NOT_FOUND, (name, own)
            assert stable(own) != stable(nobodys), name
        count = len(here.methods)
    figures = {"methods": count, "calls": 4 * count, "leaks": 0}
    by = "" if transport == "grpc" else " by HTTP"
    record.keep(record.Record(f"tenants{by}, {served.store_kind}", COMMAND, figures))


def stable(answer: Answer) -> Answer:
    """Return an answer without what differs from one call to the next, whoever calls."""
    return answer._replace(text=re.sub(_OF_ITS_OWN, "", answer.text))


async def _read_all(here: World) -> dict[str, Answer]:
    """Return what the owner reads by each method, all at once: each stream waits for silence."""
    asked = (here.asks(name, here.scene.names, "all") for name in READS)
    answers = await asyncio.gather(*asked)
    return {name: stable(one) for name, one in zip(READS, answers, strict=True)}


async def test_T1_answers_are_the_same_with_and_without_anothers_traffic(served: Served) -> None:
    async with world(served) as here:
        names = here.scene.names
        alone = await _read_all(here)
        stranger = Client(served.target, bearer("foreign"))
        # The other one has a worker, a queue, a task and a request of the same names.
        async with scene(stranger, served.store, STRANGER) as other:
            together = await _read_all(here)
        await stranger.channel.close()
        assert other.names.run_id != names.run_id
        for name in READS:
            # The place in the feed counts the changes of all.
            now, then = (
                re.sub('resume_token: "[^"]*"', "", one[name].text) for one in (together, alone)
            )
            assert (together[name].code, now) == (alone[name].code, then), name


async def test_T3_a_stranger_with_the_exact_names_can_touch_no_step(served: Served) -> None:
    async with world(served) as here:
        names = here.scene.names
        for name, lost in (
            ("Worker/ReportOutcomes", "ACK_STATUS_LEASE_LOST"),
            ("Worker/Heartbeat", "LEASE_STATUS_LOST"),
            ("Worker/AppendOutput", "LEASE_STATUS_LOST"),
            ("Worker/Work", "ACK_STATUS_LEASE_LOST"),
        ):
            answer = await here.asks(name, names, "foreign")
            assert lost in answer.text, answer
            assert "assignments" not in answer.text
        # A worker of the owner's without the token is no better off.
        guess = names._replace(lease_token="0" * len(names.lease_token))
        assert "LEASE_LOST" in (await here.asks("Worker/ReportOutcomes", guess, "all")).text
        assert "ACCEPTED" in (await here.asks("Worker/ReportOutcomes", names, "all")).text


CREDENTIALS: dict[str, tuple[tuple[str, str], ...]] = {
    "none": (),
    "invented": bearer("nobody"),
    "empty": (("authorization", "Bearer "),),
    "of another kind": (("authorization", "Basic dXNlcjpwYXNz"),),
    "a tenant's name": (("x-tenant-id", OWNER),),
    "two": (*bearer("nobody"), *bearer("all")),
    "one twice": (*bearer("all"), *bearer("all")),
    **{name: bearer(name) for name in TOKENS if name != "all"},
}


@pytest.mark.parametrize("transport", [*TRANSPORTS, "session"])
async def test_a_method_opens_to_its_scope_alone(served: Served, transport: str) -> None:
    async with world(served, "http" if transport == "session" else transport) as here:
        # Only what a token may do begins a session, whose key is sent then.
        for credential in TOKENS if transport == "session" else CREDENTIALS:
            metadata = CREDENTIALS.get(credential, bearer(credential))
            if transport == "session":
                assert here.by_http is not None
                answer = await here.by_http.client.post("/session", headers=dict(metadata))
                metadata = (("authorization", f"Bearer {answer.json()['key']}"),)
            await _only_scopes_open(here, credential, metadata)


async def _only_scopes_open(here: World, credential: str, metadata: Metadata) -> None:
    given = TOKENS.get(credential, ("", set()))[1]
    for name, row in SERVED_ROWS.items():
        code = (await here.ask(name, row(here.scene.missing), metadata)).code
        needed, said = scopes.SCOPES[path_of(name)], (credential, name)
        if name == BY_TOKEN:
            assert code is grpc.StatusCode.NOT_FOUND, said
        elif not given:
            assert code is grpc.StatusCode.UNAUTHENTICATED, said
        elif name not in here.methods:
            assert code is grpc.StatusCode.UNIMPLEMENTED, said
        elif needed not in (scopes.ANY, *given):
            assert code is grpc.StatusCode.PERMISSION_DENIED, said
        else:
            refused = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
            assert code not in refused, said


async def _commit_base(store: Store, names: Names) -> None:
    """Commit a checkpoint with a base: a run as short as the owner's has none."""
    loaded = await store.load(names.tenant_id, names.run_id)
    assert loaded is not None
    version = loaded.run.version + 1
    commit = Commit(
        commit_id="with a base",
        tenant_id=names.tenant_id,
        run_id=names.run_id,
        version=version,
        run=replace(loaded.run, version=version),
    )
    (result,) = await store.commit([named(commit, base=b"a base")])
    assert result.verdict is Verdict.COMMITTED


async def test_T3_the_store_service_keeps_tenants_apart_and_workers_out(
    served: Served, tmp_path: Path
) -> None:
    async with world(served) as here:
        names, missing = here.scene
        await _commit_base(here.served.store, names)
        service = StoreServer(here.served.store, tmp_path)
        await service.start()
        client = Client(service.address)

        async def asks(name: str, request: Message, token: str = TOKEN) -> Answer:
            metadata = (("authorization", f"Bearer {token}"),)
            return await ask(client.channel, name.partition(" ")[0], request, metadata)

        for name, row in STORE_ROWS.items():
            own = await asks(name, row(names))
            foreign = await asks(name, row(names._replace(tenant_id=STRANGER)))
            nobodys = await asks(name, row(missing._replace(tenant_id=STRANGER)))
            assert nameless(foreign, names) == nameless(nobodys, missing), name
            assert SECRET not in foreign.text, name
            assert own != foreign, name
        for name, method in STORE.items():
            request = message_factory.GetMessageClass(method.input_type)()
            denied = await asks(name, request, FOREIGN_TOKEN)
            assert denied.code is grpc.StatusCode.PERMISSION_DENIED, name
            unknown = await asks(name, request, "none")
            assert unknown.code is grpc.StatusCode.UNAUTHENTICATED, name
        await client.channel.close()
        await service.kill()
