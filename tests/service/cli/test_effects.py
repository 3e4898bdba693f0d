"""`stepwell resolve`, and how `show`, `ls` and `watch` tell of unknown outcomes and of keys."""

from __future__ import annotations

import asyncio

from tests.service.cli.world import Terminal, plan_file, start
from tests.service.conftest import Client

CHARGE = {"id": "charge", "type": "echo", "effect": "at_most_once"}


async def begin_and_die(terminal: Terminal, name: str) -> None:
    """Begin the queue's step, and come back as a process that knows nothing of it."""
    token = (terminal.folder / "state" / "stepwell" / "token").read_text().strip()
    metadata = (("authorization", f"Bearer {token}"),)
    client = Client(terminal.variables["STEPWELL_TARGET"], metadata)
    async with client.worker(name, "one", queues=[name], grant=1) as worker:
        await worker.begin(await worker.assignment())
        async with client.worker(name, "two", queues=[name], grant=0):
            pass
    await client.channel.close()


def waiting(terminal: Terminal, name: str) -> str:
    """Return a run that waits since nobody knows what came of its task."""
    run_id = start(terminal, CHARGE, queue=name)
    asyncio.run(begin_and_die(terminal, name))
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
