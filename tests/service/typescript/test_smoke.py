"""A client and worker in Node, without generated code, keeps its promises when it loses its server."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stepwell_client import Client, EventType, ExecutionStatus, RunStatus
from tests.chaos.world.processes import Place
from tests.service.typescript.node import SMOKE, Fact, Program, find_node, install, lay_out
from tests.support.watched import check_events

ACCEPTED = "ACK_STATUS_ACCEPTED"
GOALS = (
    *("do my plan", "plan yourself", "be heavy", "be cancelled"),
    *("be idle", "be handed over", "be left"),
)


@pytest.fixture(scope="session")
def node() -> str:
    return find_node()


@pytest.fixture(scope="session")
def modules(node: str) -> Path:
    return install()


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    """A server whose leases outlive its absence."""
    place = Place(tmp_path)
    place.environment["STEPWELL_EXECUTOR__LEASE_MS"] = "20000"
    try:
        await place.start_server()
        yield place
    finally:
        place.close()


@pytest.fixture
async def folder(tmp_path: Path, modules: Path) -> Path:
    return lay_out(tmp_path / "checkout", modules)


async def start(node: str, folder: Path, place: Place, target: str, *flags: str) -> Program:
    environment = {**place.environment, "STEPWELL_TARGET": target}
    return await Program.start(node, folder, environment, *flags)


async def check_record(program: Program, place: Place) -> None:
    """Compare what the program said with what the server kept."""
    async with place.client() as client:
        for goal in GOALS:
            started = program.one("started", goal=goal)
            run = await client.run(started["runId"]).get()
            watched = program.one("watched", runId=started["runId"], after="0")
            assert watched["numbers"] == list(range(1, run.last_event + 1)), "no gap, no repeat"
            assert watched["status"] == f"RUN_STATUS_{RunStatus(run.status).name}"
            assert run.created_time is not None
            at = run.created_time.replace(tzinfo=None)
            assert started["at"].startswith(at.isoformat("T", "seconds"))
            watch = client.run(started["runId"]).watch()
            check_events([event.source async for event in watch])
        assert len([run async for run in client.runs()]) == len(GOALS), "none was started twice"
        await check_plan(program, client)
        await check_whole_loop(program, client)
        await check_the_others(program, client)


async def attempts(client: Client, run_id: str) -> dict[str, list[str]]:
    """Return the status of each attempt at each task."""
    ended: dict[str, list[str]] = {}
    async for execution in client.run(run_id).executions():
        name = ExecutionStatus(execution.status).name
        ended.setdefault(execution.task_id, []).append(name)
    return ended


async def check_plan(program: Program, client: Client) -> None:
    run_id = program.one("started", goal="do my plan")["runId"]
    said = program.one("results", runId=run_id)["tasks"]
    assert said == dict((await client.run(run_id).results()).tasks)
    assert {task_id: result for task_id, result in said.items() if task_id != "slow"} == {
        "left": 4,
        "right": 2,
        "hold": 0,
        "sum": 6,
        "flaky": {"attempt": 2},
        "pay": {"paid": f"{run_id}/task:pay@1"},
    }
    tries = {task.id: task.attempts async for task in client.run(run_id).tasks()}
    assert tries == {**dict.fromkeys(said, 1), "flaky": 2}, "no attempt was lost with a connection"
    begun = {each.task_id async for each in client.run(run_id).executions() if each.begun}
    assert begun == {"pay"}
    assert (await client.run(run_id).get()).usage.input_tokens == 900_719_925_474_099
    rest = program.one("watched", runId=run_id, after="5")["numbers"]
    assert rest == program.one("watched", runId=run_id, after="0")["numbers"][5:]


async def check_whole_loop(program: Program, client: Client) -> None:
    run_id = program.one("started", goal="plan yourself")["runId"]
    said = program.one("results", runId=run_id)
    assert said["tasks"] == {"one": 4, "two": 2, "more": 3}
    assert said["run"] == {"words": 9} == (await client.run(run_id).results()).answer()
    types = [EventType(event.type) async for event in client.run(run_id).watch()]
    assert types.count(EventType.REFLECTION_ACCEPTED) == 2


async def check_the_others(program: Program, client: Client) -> None:
    run_id = program.one("started", goal="be handed over")["runId"]
    assert await attempts(client, run_id) == {"t": ["RELEASED", "COMPLETED"]}
    assert program.one("sent-again")["statuses"] == [ACCEPTED]
    heavy = program.one("started", goal="be heavy")["runId"]
    assert program.one("results", runId=heavy)["tasks"] == {"weigh": 1_400_000}
    cancelled = program.one("started", goal="be cancelled")["runId"]
    assert await attempts(client, cancelled) == {"t": ["CANCELLED"]}
    assert program.one("cancellation", runId=cancelled)["reason"], program.all("cancellation")
    idle = program.one("started", goal="be idle")["runId"]
    assert await attempts(client, idle) == {"t": ["TIMED_OUT", "COMPLETED"]}
    left = program.one("started", goal="be left")["runId"]
    assert await attempts(client, left) == {"t": ["COMPLETED"], "next": ["COMPLETED"]}
    before = program.facts.index(program.one("drained"))
    (ack,) = (fact for fact in program.all("ack", runId=left) if program.facts.index(fact) < before)
    assert (ack["executionId"], ack["way"]) == ("task:t#1", "stream")
    assert program.one("replaced")["reason"] == "REPLACED"


async def test_an_outcome_from_while_the_server_was_dead_arrives(
    node: str, folder: Path, place: Place
) -> None:
    program = await start(node, folder, place, place.target, "--hold", "--brief")
    try:
        await program.until("holding")
        place.kill_server()
        lost = await program.until("disconnect")
        program.enter()
        kept = await program.until("outcome")
        await place.start_server()
        await program.finish()
    finally:
        await program.close()
    assert lost["why"] == "UNAVAILABLE"
    assert (kept["task"], kept["connected"]) == ("hold", False)
    assert [ack["status"] for ack in program.all("ack", executionId="task:hold#1")] == [ACCEPTED]
    run_id = program.one("started", goal="do my plan")["runId"]
    assert "UNAVAILABLE" in program.one("watched", runId=run_id, after="0")["losses"]
    await check_record(program, place)
    async with place.client() as client:
        ended = await attempts(client, run_id)
    assert ended.pop("flaky") == ["FAILED", "COMPLETED"]
    assert set(map(tuple, ended.values())) == {("COMPLETED",)}


async def test_the_whole_protocol_works_and_its_refusals_read_well(
    node: str, folder: Path, place: Place
) -> None:
    program = await start(node, folder, place, place.target)
    try:
        await program.finish()
    finally:
        await program.close()
    await check_record(program, place)
    (outlived,) = [fact for fact in program.all("results") if "slow" in fact["tasks"]]
    async with place.client() as client:
        assert (await attempts(client, outlived["runId"]))["slow"] == ["COMPLETED"]
    check_refusals({fact["name"]: fact for fact in program.all("refused")})
    await check_readme(node, folder, place)


async def check_readme(node: str, folder: Path, place: Place) -> None:
    """The example of the README, as it stands there, runs a run to its end."""
    example = (SMOKE / "README.md").read_text(encoding="utf-8").partition("```js\n")[2]
    (folder / "example.mjs").write_text(example.partition("```")[0], encoding="utf-8")
    environment = {**place.environment, "STEPWELL_TARGET": place.target}
    command = [node, "example.mjs"]
    ran = await asyncio.to_thread(
        subprocess.run, command, cwd=folder, env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1].endswith("EVENT_TYPE_RUN_SUCCEEDED")


def check_refusals(refused: dict[str, Fact]) -> None:
    assert {name: (fact.get("code"), fact.get("reason")) for name, fact in refused.items()} == {
        "unknown run": ("NOT_FOUND", "RUN_NOT_FOUND"),
        "cycle": ("INVALID_ARGUMENT", "PLAN_INVALID"),
        "limit": ("INVALID_ARGUMENT", "INVALID_ARGUMENT"),
        "wrong token": ("UNAUTHENTICATED", "UNAUTHENTICATED"),
        "future cursor": ("INVALID_ARGUMENT", "CURSOR_IN_FUTURE"),
        "unknown field": (None, None),
        "unknown value": (None, None),
    }
    assert "run_id" in refused["unknown run"]["metadata"]
    assert refused["cycle"]["violations"][0]["field"] == "plan.tasks[0].depends_on[0]"
    assert refused["limit"]["violations"][0]["field"] == "max_parallel"
    assert "GetRun.run_id" in refused["unknown field"]["message"]
    assert "ListRuns.statuses[0]" in refused["unknown value"]["message"]


def test_the_types_fit(node: str, folder: Path) -> None:
    compiler = folder / "node_modules" / ".bin" / "tsc"
    checked = subprocess.run([compiler], cwd=folder, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_the_lock_file_names_no_registry_and_no_other_host() -> None:
    lock = (SMOKE / "package-lock.json").read_text(encoding="utf-8")
    assert '"resolved"' not in lock
    # npm writes the packages' funding pages into it; they are of no use there.
    assert "://" not in lock
