"""`stepwell show`: one task, and runs whose ids are names."""

from __future__ import annotations

from pathlib import Path

from stepwell.embedded import Orchestrator
from stepwell_client import Agent, Task
from tests.service.cli.world import Row, Terminal, plan_file, serving, start


def test_a_task_is_shown_with_its_attempts_and_what_they_left(terminal: Terminal) -> None:
    tasks = [
        {"id": "one", "type": "echo", "title": "say it", "input": "said", "group": "g"},
        {"id": "two", "type": "fail", "gathers": "g", "at_least": 1, "retry": {"max_attempts": 1}},
    ]
    run = terminal(
        "run", "-q", "default", "--json", "--plan", plan_file(terminal.folder, tasks)
    ).run_id
    terminal.plays(
        run,
        Row(
            "show {run} one",
            0,
            "task one  COMPLETED  say it\ntype   echo\ngroup  g\n    input\n      said",
        ),
        Row("show {run} one", 0, "      said\nattempt 1  task:one#1"),
        Row("show {run} one --result", 0, "said\n"),
        Row(
            "show {run} two",
            0,
            "after  one\ngathers g, at least 1\nattempt 1  task:two#1  FAILED  by ",
        ),
        Row("show {run} task:two#1", 0, "    RuntimeError: it is broken"),
        Row("show {run} two", 0, "      Traceback (most recent call last):"),
        Row("show {run} two", 0, "    prompt\n      why?\n    response\n      because"),
        Row("show {run} two", 0, "  5 tokens in, 7 out  small, large"),
        Row("show {run} two --json", 0, '"response": "because"'),
        Row("show {run} two --result", 2, err="two has no result"),
        Row("show {run} --failures", 0, "attempt 1  task:two#1  FAILED  by "),
        Row("show {run} --failures", 0, "      Traceback (most recent call last):"),
        Row("show {run} --failures --json", 0, '"execution_id": "task:two#1"'),
        Row("watch {run}", 1, "           Traceback (most recent call last):"),
        Row("show {run} three", 2, err="run {short} has no task or execution 'three'"),
        Row("show {run} one --at 2", 2, err="not a task; leave one of them"),
        Row("show {run} --failures --at 2", 2, err="not its failures; leave one of them"),
        Row("show {run} two --failures", 2, err="leave --failures or the task"),
        Row("show {run}", 0, "Traceback (most recent call last):"),
    )
    assert "ERROR: Traceback (most recent call last):" in terminal("logs", run).out


def test_task_is_shown_with_its_messages_calls_and_log(terminal: Terminal) -> None:
    tasks = [{"id": "talk", "type": "talk"}, {"id": "call", "type": "call"}]
    run = terminal(
        "run", "-q", "default", "--json", "--plan", plan_file(terminal.folder, tasks)
    ).run_id
    terminal.plays(
        run,
        Row(
            "show {run} talk",
            0,
            "messages\n    user 1 (talk#1, session s-1)\n      hello\n      there",
        ),
        Row("show {run} talk", 0, "  talk#1  begins"),
        Row("show {run} talk", 0, "WARNING: odd \ufffd[31mred"),
        Row("show {run} call", 0, "  call#1  book  done, 6 bytes"),
        Row("show {run} --failures", 0, err="no attempt of run {short} has failed"),
    )
    shown = terminal("show", run, "talk", "--json").json
    assert [one["content"] for one in shown["messages"]] == ["hello\nthere", "hi"]
    assert [one["text"] for one in shown["logs"]] == ["begins", "odd \x1b[31mred"]
    of_attempt = terminal("show", run, "task:call#1").out
    assert "calls\n" in of_attempt
    assert "messages" not in of_attempt


def test_task_that_waits_for_its_key_is_shown_with_the_run_that_has_it(terminal: Terminal) -> None:
    plan = [{"id": "a", "type": "question", "idempotency_key": "shown"}]
    holder = start(terminal, *plan, queue="default")
    while holder not in terminal("ls", "--blocked-on", "question", "--json").out:
        pass
    run = start(terminal, *plan, queue="default")
    while run not in terminal("ls", "--blocked-on", "key", "--json").out:
        pass
    has_key = f"run {holder[:8]} has the same task under way (idempotency key)"
    terminal.plays(run, Row("show {run}", 0, has_key))
    terminal.plays(holder, Row("answer {run} 7", 0))
    taken = f"DEDUPLICATED: took the result of task:a#2 of run {holder[:8]}"
    terminal.plays(run, Row("watch {run}", 0, taken), Row("show {run}", 0, taken))


async def test_embedded_runs_with_names_are_shown_and_removed_by_them(tmp_path: Path) -> None:
    agent, store = Agent(), f"sqlite:///{tmp_path / 'runs.db'}"
    agent.task(lambda ctx: "done")
    for run_id in ("Nightly/1", "Nightly/10"):
        plan = [Task("a", idempotency_key="nightly")]
        await Orchestrator("", agent, store=store, run_id=run_id, plan=plan).run()
    terminal = Terminal(tmp_path)
    with serving(terminal, store=store) as address:
        terminal.variables["STEPWELL_TARGET"] = address
        terminal.plays(
            "",
            Row("show Nightly/10", 0, "SUCCEEDED"),
            Row("show Nightly/10", 0, "took the result of task:a#1 of run Nightly/1"),
            Row("show Night", 2, err="2 runs' ids begin with Night: Nightly/10, Nightly/1;"),
            Row("rm Nightly/1", 0, "Nightly/"),
            Row("show Night", 0, "Nightly/10"),
        )
