"""S4 by a fault wrapper: every workload comes to the same end whatever befalls the calls to its store.

Each mode is drawn at 5 to 30 % of all calls, on every driver; what it did is counted, and a mode that
was never met fails the test that is about it. In virtual time the same seed gives the same faults.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stepwell.store.opener import open_store as open_by_url
from stepwell_testkit.conformance.harness import StoreFactory
from stepwell_testkit.faults import Faults, Mode
from tests.contract.conformance.conftest import FACTORIES
from tests.simulation.crashing import Canonical
from tests.simulation.faulty import FaultyWorld
from tests.simulation.simulator import Rng
from tests.simulation.simulator.runtime import SimRuntime
from tests.simulation.test_crash_points import WORKLOADS, in_virtual_time

SHARES = (0.05, 0.15, 0.3)
SEEDS = 4
NONE = Faults()
ALL = Faults(refuse=0.06, time_out=0.06, delay=0.06, twice=0.06, cut=0.06, lost_hints=0.2)


def faults_of(mode: Mode, share: float) -> Faults:
    return Faults(delay_ms_max=10)._replace(**{mode.value: share})


async def in_memory(name: str, faults: Faults, seed: int) -> tuple[Canonical, Counter[str]]:
    runtime = SimRuntime(asyncio.get_running_loop(), Rng(f"store {seed}"))
    store = await open_by_url("memory://", runtime=runtime)
    world = FaultyWorld(WORKLOADS[name], store, faults, seed, None)
    found = await world.run()
    await store.close()
    return found, world.seen


def undisturbed(name: str) -> Canonical:
    return in_virtual_time(in_memory(name, NONE, 0))[0]


def replay_words(name: str, what: str, seed: int) -> str:
    test = "tests/simulation/test_faulty_stores.py"
    return f"replay: python -m pytest {test} -k '{name} and {what}' (seed {seed})"


@pytest.mark.parametrize("mode", Mode, ids=lambda mode: mode.value)
@pytest.mark.parametrize("name", WORKLOADS)
def test_S3_S4_S7_S8_S18_a_workload_ends_right_whatever_befalls_its_calls(
    name: str, mode: Mode
) -> None:
    whole, seen = undisturbed(name), Counter[str]()
    for share in SHARES:
        for seed in range(SEEDS):
            words = f"{share:.0%} {mode}; {replay_words(name, mode.value, seed)}"
            found, met = in_virtual_time(in_memory(name, faults_of(mode, share), seed))
            assert found == whole, words
            seen += met
    for method in ("commit", "claim", "load"):
        assert seen[f"{method}:{mode}"] > 0, f"{mode} never befell {method}: {seen}"


def test_S4_every_fate_of_an_unknown_commit_is_met() -> None:
    seen = Counter[str]()
    for name in WORKLOADS:
        whole = undisturbed(name)
        for seed in range(3 * SEEDS):
            found, met = in_virtual_time(in_memory(name, ALL, seed))
            assert found == whole, replay_words(name, "fate", seed)
            seen += met
    fates = ("unknown_applied", "unknown_not_applied", "cut_before", "cut_off", "cut_after")
    for what in (*(f"commit:{fate}" for fate in fates), "commit_id seen again", "hint:cut"):
        assert seen[what] > 0, f"never met: {what}: {seen}"


@pytest.fixture(params=FACTORIES, ids=lambda factory: factory.name)
async def factory(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[StoreFactory]:
    if "feed" in request.param.excuses:
        pytest.skip("the same driver with parts left out")
    made = request.param(tmp_path)
    yield made
    await made.close()


@pytest.mark.parametrize("mode", [*Mode, None], ids=lambda mode: mode.value if mode else "all")
async def test_S3_S4_S7_S8_S18_D1_a_workload_ends_right_on_every_driver(
    factory: StoreFactory, mode: Mode | None
) -> None:
    # Which workload meets which mode at which share goes round, so that each driver sees all.
    turn = [*Mode, None].index(mode)
    names = [name for at, name in enumerate(WORKLOADS) if at % 3 == turn % 3]
    seen = Counter[str]()
    for seed, name in enumerate(names):
        faults = ALL if mode is None else faults_of(mode, SHARES[(turn + seed) % 2 + 1])
        store = await factory.open()
        world = FaultyWorld(WORKLOADS[name], store, faults, seed, factory.advance)
        found = await world.run()
        whole = await asyncio.to_thread(undisturbed, name)
        assert found == whole, replay_words(f"{factory.name}", str(mode), seed)
        seen += world.seen
        await store.close()
    modes = [mode] if mode else list(Mode)
    met = [f"{method}:{one}" for one in modes for method in ("commit", "claim")]
    assert any(seen[what] for what in met), f"never met: {met}: {seen}"
