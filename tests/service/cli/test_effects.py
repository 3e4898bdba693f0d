"""`stepwell resolve`, and how `show`, `ls` and `watch` tell of unknown outcomes and of keys."""

from __future__ import annotations

import asyncio

import pytest

from tests.service.cli.world import Row, Terminal, plan_file, start
from tests.service.conftest import Client

CHARGE = {"id": "charge", "type": "echo", "effect": "at_most_once"}
SETTLED = "task:charge#1 of run {short} is settled\n"


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
    """Return a run that waits because its task's outcome is unknown."""
    run_id = start(terminal, CHARGE, queue=name)
    asyncio.run(begin_and_die(terminal, name))
    followed = terminal("watch", run_id)
    assert followed.code == 4, followed.err
    assert "nobody knows what came of it" in followed.out
    return run_id


def test_show_and_ls_say_which_execution_and_since_when(terminal: Terminal) -> None:
    run_id = waiting(terminal, "seen")
    said = "nobody knows what came of task:charge#1, for "
    terminal.plays(run_id, Row("show {run}", 0, said, "stepwell resolve"))
    listed = terminal("ls", "--blocked-on", "unknown-outcome", "--queue", "seen", COLUMNS="200")
    assert said in listed.out


@pytest.mark.parametrize(
    "rows",
    [
        (
            Row("resolve {run} charge --done --result '\"paid\"'", 0, SETTLED),
            Row("show {run} --result --json", 0, '"charge": "paid"'),
            Row("watch {run}", 0, "it is known what came of it: a person: its effect took place"),
        ),
        (
            Row("resolve {run} task:charge#1 --not-done --json", 0, '"changed": true'),
            Row("show {run} --json", 0, '"execution_id": "task:charge#2"'),
        ),
        (
            Row("resolve {run} charge --done --failed 'no money'", 0, SETTLED),
            Row("show {run}", 0, "no money"),
        ),
    ],
    ids=["done", "not done", "failed"],
)
def test_a_person_says_what_came_of_it(
    terminal: Terminal, rows: tuple[Row, ...], request: pytest.FixtureRequest
) -> None:
    terminal.plays(waiting(terminal, request.node.callspec.id.replace(" ", "-")), *rows)


def test_refused_resolution_names_its_reason(terminal: Terminal) -> None:
    terminal.plays(
        start(terminal, CHARGE, queue="nobody"),
        Row("resolve {run} charge --done", 2, err="no execution whose outcome is unknown"),
        Row("resolve {run} task:charge#1 --done", 1, err="whose outcome is unknown"),
        Row("resolve {run} charge", 2, err="--done or --not-done"),
        Row("resolve {run} charge --not-done --result 1", 2, err="go with --done"),
        Row("resolve {run} charge --done --result {", 2, err="--result is no JSON"),
        Row("resolve {run} charge --done --result 1 --failed x", 2, err="don't go together"),
    )


def test_a_task_that_took_a_result_says_deduplicated(terminal: Terminal) -> None:
    tasks = [{"id": name, "type": "echo", "input": 1, "idempotency_key": "k"} for name in "ab"]
    plan = plan_file(terminal.folder, tasks)
    followed = terminal("run", "--plan", plan)
    assert followed.code == 0, followed.err
    said = "DEDUPLICATED: took the result of task:a#1"
    assert said in followed.out
    (run,) = terminal("ls", "-n", "1", "--json").json["runs"]
    assert said in terminal("show", run["spec"]["run_id"], COLUMNS="200").out
