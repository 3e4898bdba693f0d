"""The fault wrapper covers the whole port, and does to each method what its mode says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from stepwell.core.port import (
    Claim,
    KeySwap,
    OldLogs,
    RunQuery,
    Store,
)
from stepwell.core.records.errors import OutcomeUnknown, StoreUnavailable
from stepwell.store.opener import open_store
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.harness import soon, turns
from stepwell_testkit.faults import Faults, FaultyStore, Mode
from stepwell_testkit.proxy import StoreProxy
from stepwell_testkit.runtime import ManualRuntime
from tests.unit.engine.executor_world import Rigged

METHODS = {name: each for name, each in vars(Store).items() if not name.startswith("_")}
NO_CALLS = {"subscribe": "its hints are lost instead", "close": "always works"}
MAY_BE_UNKNOWN = {"commit", "write_journal"}
WITH = (b.TENANT, b.RUN)
ASKS: dict[str, Callable[[Store], Awaitable[object]]] = {
    "commit": lambda store: store.commit([b.created()]),
    "renew": lambda store: store.renew([b.renewal()]),
    "write_journal": lambda store: store.write_journal([b.journal_write(b.entry())]),
    "put_presence": lambda store: store.put_presence([b.presence()], ttl_ms=1_000),
    "append_logs": lambda store: store.append_logs(*WITH, [b.line("x")]),
    "remove_logs": lambda store: store.remove_logs(OldLogs(older_ms=1, limit=1)),
    "delete_run": lambda store: store.delete_run(*WITH, version=1),
    "claim": lambda store: store.claim(Claim()),
    "get_run": lambda store: store.get_run(*WITH),
    "load": lambda store: store.load(*WITH),
    "read_payloads": lambda store: store.read_payloads(*WITH, ["x"]),
    "read_plan": lambda store: store.read_plan(*WITH, 1),
    "read_base": lambda store: store.read_base(*WITH, version=1),
    "read_events": lambda store: store.read_events(*WITH, after=0, limit=1),
    "page": lambda store: store.page(RunQuery(tenant_id=b.TENANT)),
    "read_questions": lambda store: store.read_questions(*WITH, ["x"]),
    "swap_keys": lambda store: store.swap_keys(b.TENANT, "p", [KeySwap(key="x")]),
    "describe": lambda store: store.describe(),
}


@pytest.fixture
def runtime() -> ManualRuntime:
    return ManualRuntime("wrapper")


@pytest.fixture
async def counting(runtime: ManualRuntime) -> AsyncIterator[Rigged]:
    store = Rigged(await open_store("memory://", runtime=runtime))
    yield store
    await store.close()


def faulty(counting: Rigged, runtime: ManualRuntime, mode: Mode, method: str) -> FaultyStore:
    faults = Faults(methods=frozenset({method}))._replace(**{mode.value: 1.0})
    return FaultyStore(counting, runtime, faults)


def test_every_method_of_the_port_is_asked_here_and_passed_on_by_the_proxy() -> None:
    assert set(ASKS) | set(NO_CALLS) == set(METHODS)
    assert [name for name in METHODS if not hasattr(StoreProxy, name)] == []


@pytest.mark.parametrize("method", ASKS)
async def test_S4_refusal_does_nothing_twice_does_it_twice_and_delay_later(
    method: str, counting: Rigged, runtime: ManualRuntime
) -> None:
    store = faulty(counting, runtime, Mode.REFUSE, method)
    with pytest.raises(StoreUnavailable):
        await ASKS[method](store)
    assert (counting.calls[method], store.seen[f"{method}:refuse"]) == (0, 1)
    await ASKS[method](faulty(counting, runtime, Mode.TWICE, method))
    assert counting.calls[method] == 2
    late = asyncio.ensure_future(ASKS[method](faulty(counting, runtime, Mode.DELAY, method)))
    await turns()
    assert not late.done()
    for _ in range(2):
        runtime.advance(50)
        await turns()
    await late
    assert counting.calls[method] == 3


@pytest.mark.parametrize("method", ASKS)
async def test_S4_time_out_does_it_and_tells_nobody(
    method: str, counting: Rigged, runtime: ManualRuntime
) -> None:
    store = faulty(counting, runtime, Mode.TIME_OUT, method)
    error = OutcomeUnknown if method in MAY_BE_UNKNOWN else StoreUnavailable
    for asked in range(1, 21):
        with pytest.raises(error):
            await ASKS[method](store)
        assert method == "commit" or counting.calls[method] == asked
    assert 0 < counting.calls[method] <= 20


@pytest.mark.parametrize("method", ASKS)
async def test_S4_cut_loses_breaks_off_or_goes_on_behind_the_callers_back(
    method: str, counting: Rigged, runtime: ManualRuntime
) -> None:
    store = faulty(counting, runtime, Mode.CUT, method)
    error = OutcomeUnknown if method in MAY_BE_UNKNOWN else StoreUnavailable
    for _ in range(40):
        with pytest.raises(error):
            await ASKS[method](store)
        runtime.advance(50)
        await turns()
    for fate in ("cut_before", "cut_off", "cut_after"):
        assert store.seen[f"{method}:{fate}"] > 0
    assert store.seen[f"{method}:cut_after"] <= counting.calls[method]


async def test_a_cut_connection_is_deaf_and_says_so_when_it_is_there_again(
    counting: Rigged, runtime: ManualRuntime
) -> None:
    store = faulty(counting, runtime, Mode.CUT, "get_run")
    received: list[tuple[str, str, int]] = []
    stop = store.subscribe(lambda *hint: received.append(hint))
    with pytest.raises(StoreUnavailable):
        await store.get_run(*WITH)
    await counting.commit([b.created()])
    await turns()
    assert received == []
    assert store.seen["hint:cut"] == 1

    runtime.advance(50)
    assert await soon(lambda: received == [("", "", 0)])
    await counting.commit([b.created("run-2")])
    assert await soon(lambda: received[1:] == [(b.TENANT, "run-2", 1)])

    stop()
    with pytest.raises(StoreUnavailable):
        await store.get_run(*WITH)
    runtime.advance(50)
    await turns()
    assert len(received) == 2
