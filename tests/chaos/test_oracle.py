"""The oracle over a load: a store that keeps its word passes, and a mutant of one is caught by an invariant's name."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.faults import Faults, FaultyStore
from tests.chaos.faults.functional import Chance
from tests.chaos.load.players import Load
from tests.chaos.oracle.history import Findings, Lost, check_condemned
from tests.chaos.oracle.journals import ENTRY, Journals, check_notes
from tests.chaos.world import observed
from tests.mutants import changes, journals, stores
from tests.mutants.stores import StorePort
from tests.simulation.simulator.run_model import RunModel
from tests.simulation.simulator.violation import InvariantViolation

COMMITS = 300
FAULTS = Faults(time_out=0.1, cut=0.1, refuse=0.05, delay_ms_max=3)


async def played(folder: Path, port: StorePort = changes.MutantStore) -> Findings:
    """Play a load through three doors that fail, each a mutant, and check it."""
    runtime = SystemRuntime()
    name = f"memory://{folder.as_posix().replace('/', '.')}"
    real = [await open_store(name, runtime=runtime) for _ in range(3)]
    faulty = [FaultyStore(one, Chance(f"{at}"), FAULTS) for at, one in enumerate(real)]
    try:
        async with Load([port(one, runtime) for one in faulty], folder, "oracle") as load:
            await load.more(COMMITS)
            for one in faulty:
                one.faults = Faults()
            await asyncio.sleep(0.05)
            return await load.check(real[0])
    finally:
        for one in real:
            await one.close()


async def test_honest_store_passes_and_every_fate_of_a_commit_is_met(tmp_path: Path) -> None:
    seen = (await played(tmp_path)).seen
    for fate in ("unknown commit that was applied", "unknown commit that was not applied"):
        assert seen[fate] > 0, seen
    assert seen["commit_id seen again"] > 0, seen
    assert seen[ENTRY] > 0, seen


@pytest.mark.parametrize(
    ("port", "names"),
    [
        (stores.SentAnewWhenUnknown, {"S3", "S4", "S5"}),
        (changes.events(changes.one_event_a_page), {"E8"}),
        (stores.RepeatsAnEvent, {"E2"}),
    ],
    ids=["sent anew when unknown", "one event a page", "repeats an event"],
)
async def test_mutant_is_caught_by_name(tmp_path: Path, port: StorePort, names: set[str]) -> None:
    with pytest.raises(InvariantViolation) as caught:
        await played(tmp_path, port)
    assert caught.value.name in names, caught.value


@pytest.mark.parametrize(
    ("killed_at", "condemned_rightly"), [(2.5, True), (0.5, False), (3.5, False)]
)
def test_S13_a_step_is_condemned_only_for_workers_that_were_killed_with_it(
    killed_at: float, condemned_rightly: bool
) -> None:
    findings, step = Findings(), ("run", "task:a")
    for number in (1, 2, 3):
        worker, instance = f"w{number}", f"w{number} {number}"
        findings.first_leased_at[instance] = 1.0
        findings.lost.append(Lost(step, worker, instance, leased_at=2.0, lost_at=3.0))
    findings.condemned.append((step, ("w1 1", "w2 2", "w3 3")))
    deaths = {"w1": [2.5], "w2": [0.1, 2.9], "w3": [killed_at]}
    with nullcontext() if condemned_rightly else pytest.raises(InvariantViolation, match="S13"):
        check_condemned(findings, deaths)


@pytest.mark.parametrize(
    ("port", "name"),
    [(journals.EntriesAcknowledgedEarly, "J1"), (journals.EntriesMisplaced, "J2")],
)
async def test_journal_that_breaks_its_word_is_caught_by_name(
    tmp_path: Path, port: StorePort, name: str
) -> None:
    inner = await open_store("memory://", runtime=SystemRuntime())
    mutant, diary = port(inner, SystemRuntime()), tmp_path / "diary"
    scribe = observed.Scribe(mutant, diary, "door")
    await ask.must(scribe, b.created_leased())
    for key in ("a", "b", "c"):
        await scribe.write_journal([b.journal_write(b.entry(key, key.encode()))])
    kept = Journals(observed.read(diary))
    await kept.read(mutant, b.TENANT, [b.RUN])
    await inner.close()
    with pytest.raises(InvariantViolation) as caught:
        kept.check({b.RUN: RunModel(b.TENANT, b.RUN)}, {}, Counter())
    assert caught.value.name == name, caught.value


RAN, KEPT = "run task 1 ran a -", "run task 1 kept a one"


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ((RAN, KEPT, "run task 2 ran a -"), "J3"),
        ((RAN, KEPT, "run task 2 kept a two"), "J2"),
        (
            (RAN, KEPT, "run task 2 forgets a -", "run task 2 forgot a -", "run task 2 kept a one"),
            "J1",
        ),
        (("run task 1 ran once -", "run task 2 ran once -"), "J5"),
    ],
)
def test_function_that_runs_again_or_another_value_is_caught_by_name(
    lines: Sequence[str], name: str
) -> None:
    with pytest.raises(InvariantViolation) as caught:
        check_notes(lines)
    assert caught.value.name == name, caught.value


def test_function_runs_again_in_a_stale_attempt_and_after_a_forget() -> None:
    stale = ("run task 2 ran a -", "run task 2 kept a two", RAN)
    anew = ("run task 2 forgets a -", "run task 2 forgot a -", "run task 2 ran a -")
    assert check_notes([*stale, *anew, "run task 2 kept a three"])
