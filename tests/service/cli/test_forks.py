"""The command line's way into a run's past: forks, plans, checkpoints, earlier versions, two runs compared."""

from __future__ import annotations

import re
from datetime import datetime
from unittest.mock import patch

import pytest

from stepwell.runtime import SystemRuntime
from tests.service.cli.world import Row, Terminal, plan_file

TASKS = [
    {"id": "one", "type": "echo", "input": 20},
    {"id": "two", "type": "echo", "input": 22},
    {"id": "all", "type": "sum", "depends_on": ["one", "two"]},
]


@pytest.fixture(scope="module")
def parent(terminal: Terminal) -> str:
    """A run that has ended, of the tasks above."""
    answer = terminal("run", "--plan", plan_file(terminal.folder, TASKS), "--goal", "add", "--json")
    assert answer.code == 0, answer.err
    return answer.run_id


def changed_plan(terminal: Terminal) -> str:
    return plan_file(terminal.folder, [TASKS[0], {**TASKS[1], "input": 30}, TASKS[2]])


def test_a_fork_with_another_plan_is_followed_to_its_result(
    terminal: Terminal, parent: str
) -> None:
    answer = terminal("fork", parent, "--patch", "--plan", changed_plan(terminal))

    assert answer.code == 0, answer.err
    assert f"is a fork of {parent[:8]} at version " in answer.err
    assert "1 result kept, 2 to be done again, 0 still to do" in answer.err
    assert f"forked from {parent[:8]} at version " in answer.out
    assert answer.out.splitlines()[-3:] == ["one: 20", "two: 30", "all: 50"]
    fork = answer.err.split()[0]
    shown = terminal("show", fork)
    assert f"kept from {parent[:8]}" in shown.out
    assert f"{parent[:8]} at version" in shown.out
    assert fork in terminal("show", parent).out
    assert f"(fork of {parent[:8]})" in terminal("ls").out
    listed = terminal("ls", "--forks-of", parent, "--json").json["runs"]
    assert fork in {run["spec"]["run_id"][:8] for run in listed}


def test_a_dry_run_says_what_would_be_kept_and_starts_nothing(
    terminal: Terminal, parent: str
) -> None:
    before = len(terminal("ls", "--json").json["runs"])
    answer = terminal("fork", parent, "--patch", "--plan", changed_plan(terminal), "--dry-run")
    assert answer.code == 0
    assert answer.out == "kept (1): one\ndone again (2): two, all\nstill to do (0): -\n"
    early = terminal("fork", parent, "--at", "1", "--dry-run").out.splitlines()
    assert early == ["kept (0): -", "done again (0): -", "still to do (3): one, two, all"]
    refused = terminal("fork", parent, "--strict", "--plan", changed_plan(terminal), "--dry-run")
    assert refused.code == 1
    assert "definition changed: plan.tasks[1].input: Its input was another" in refused.out
    assert len(terminal("ls", "--json").json["runs"]) == before


def test_fork_with_another_input_or_goal_says_that_results_are_kept(
    terminal: Terminal, parent: str
) -> None:
    note = (
        "note: 3 results are kept though made with another input and for another goal; to make them"
    )
    changed = ("--input", "7", "--goal", "other")
    assert note in terminal("fork", parent, *changed, "--dry-run").out
    assert note in terminal("fork", parent, *changed, "--detach").err
    assert "note" not in terminal("fork", parent, "--goal", "add", "--dry-run").out
    assert "note" not in terminal("fork", parent, *changed, "--at", "1", "--dry-run").out


def test_a_fork_that_does_not_fit_says_why(terminal: Terminal, parent: str) -> None:
    plan = changed_plan(terminal)
    empty = terminal("run", "--detach", "--queue", "nobody").out.strip()
    terminal.plays(empty, Row("plans {run}", 0, err="no plan yet"))
    terminal.plays(
        parent,
        Row(f"fork {{run}} --plan {plan}", 1, err="DEFINITION_CHANGED"),
        Row(f"fork {{run}} --plan {plan}", 1, err="--patch"),
        Row("fork {run} --at 999", 2, err="--at: the run has come to version"),
        Row("fork {run} --at -1", 2),
        Row("fork {run} --input nonsense", 2, err="no JSON"),
        Row("show {run} --at 999", 2, err="--at: the run has come to version"),
    )


def test_a_detached_fork_prints_its_id_and_a_request_finds_it_again(
    terminal: Terminal, parent: str
) -> None:
    words = ("fork", parent, "--detach", "--queue", "nobody", "--replan", "--request-id", "r1")
    first, again = terminal(*words), terminal(*words)
    assert first.code == 0, first.err
    assert first.out.strip()[-12:] == parent[-12:]
    assert again.out == first.out
    assert "has made fork" in again.err


def test_checkpoints_plans_and_earlier_versions(terminal: Terminal) -> None:
    assert terminal("run", "--goal", "twice").code == 0
    run_id = terminal("ls", "-n", "1", "--json").json["runs"][0]["spec"]["run_id"]

    said = terminal("checkpoints", run_id)
    assert said.code == 0
    assert "iteration completed" in said.out
    assert f"stepwell fork {run_id[:8]} --at VERSION" in said.err
    found = terminal("checkpoints", run_id, "--json").json["checkpoints"]
    assert [one["type"].removeprefix("EVENT_TYPE_") for one in found][::5] == [
        "RUN_STARTED",
        "RUN_SUCCEEDED",
    ]
    plans = terminal("plans", run_id)
    assert [line.split()[:5] for line in plans.out.splitlines()[1:]] == [
        ["1", "1", "2", "0", "planned"],
        ["2", "2", "1", "0", "continued"],
    ]
    then = terminal("show", run_id, "--at", found[2]["version"])
    assert "iteration 2 of 10" in then.out
    assert "2 of 3 tasks" in then.out
    assert f"as of version {found[2]['version']}" in then.err


def test_two_runs_are_compared_side_by_side(terminal: Terminal, parent: str) -> None:
    other = [TASKS[0], {**TASKS[1], "input": 30}, {"id": "new", "type": "echo", "input": "n"}]
    plan = plan_file(terminal.folder, other)
    fork = terminal("fork", parent, "--patch", "--plan", plan, "--json").json_lines[-1]
    fork_id = fork["run"]["spec"]["run_id"]

    answer = terminal("diff", parent, fork_id)
    assert answer.code == 0, answer.err
    rows = {line.split()[1]: line for line in answer.out.splitlines() if line and line[0] in "=~+-"}
    assert rows["one"].split()[0] == "="
    assert "kept, the same result" in rows["one"]
    assert rows["two"].startswith("~")
    assert rows["two"].endswith("input")
    assert rows["all"].startswith("-")
    assert rows["new"].startswith("+")
    assert "forked from" in answer.out
    document = terminal("diff", parent, fork_id, "--json").json
    assert [(one["task_id"], one["plan"], one["same_result"]) for one in document["tasks"]] == [
        ("one", "same", True),
        ("two", "changed", False),
        ("all", "removed", None),
        ("new", "added", None),
    ]
    assert document["tasks"][1]["results"] == [22, 30]


def test_a_plan_is_printed_as_a_file_that_a_strict_fork_takes(terminal: Terminal) -> None:
    tasks = [
        {
            "id": "one",
            "type": "echo",
            "prompt": "say it",
            "input": {"text": "ü", "many": [1, 2]},
            "effect": "at_most_once",
            "attempt_timeout": "30s",
        },
        {"id": "two", "type": "sum", "depends_on": []},
    ]
    made = terminal("run", "--plan", plan_file(terminal.folder, tasks), "--json")
    run_id = made.run_id
    printed = terminal("plans", run_id, "--tasks-of", "1")

    assert printed.json["tasks"][0].items() >= tasks[0].items()
    (terminal.folder / "again.json").write_text(printed.out)
    answer = terminal("fork", run_id, "--plan", "again.json", "--dry-run")
    assert answer.code == 0, answer.err
    assert answer.out.startswith("kept (2): one, two")
    missing = "there is no plan 2; the run has 1 plan"
    terminal.plays(run_id, Row("plans {run} --tasks-of 2", 2, err=missing))


def test_earlier_version_counts_its_times_up_to_then(terminal: Terminal) -> None:
    run = terminal("run", "--goal", "then", "--json").json_lines[-1]["run"]
    an_hour_later = SystemRuntime().now_us() + 3_600_000_000
    with patch.object(SystemRuntime, "now_us", lambda _: an_hour_later):
        shown = terminal("show", run["spec"]["run_id"], "--at", "2").out

    took = re.search(r" · (\d+\.\d+)s · ", shown)
    assert took is not None, shown
    began, ended = (datetime.fromisoformat(run[name]) for name in ("created_time", "ended_time"))
    assert float(took[1]) < (ended - began).total_seconds() + 1.0


def test_results_are_compared_as_json(terminal: Terminal) -> None:
    plan = plan_file(terminal.folder, [{"id": "a", "type": "echo", "input": {"yes": True}}])
    other = plan_file(terminal.folder, [{"id": "a", "type": "echo", "input": {}}], "other.json")
    runs = [terminal("run", "--plan", name, "--json").run_id for name in (plan, other)]

    assert 'completed, {"yes": true}' in terminal("diff", *runs).out


def test_run_waits_for_a_worker_version_and_its_fork_for_another(terminal: Terminal) -> None:
    plan = plan_file(terminal.folder, TASKS)
    pinned = terminal("run", "--plan", plan, "--worker-version", ">=9", "--detach")
    assert pinned.code == 0, pinned.err
    run_id = pinned.out.strip()
    assert "version 9 or later" in terminal("show", run_id).out

    exact = terminal("fork", run_id, "--worker-version", "9.1", "--detach", "--json")
    assert exact.json["run"]["spec"]["worker_version"]["match"] == "VERSION_MATCH_EXACT"
    free = terminal("fork", run_id, "--worker-version", "any")
    assert free.code == 0, free.err
    refused = terminal("run", "--plan", plan, "--worker-version", ">=blue", "--detach")
    assert refused.code != 0
    assert "worker_version.version" in refused.err


def test_run_with_forks_is_removed_by_family_alone(terminal: Terminal) -> None:
    plan = plan_file(terminal.folder, TASKS)
    parent = terminal("run", "--plan", plan, "--goal", "gone", "--json").run_id
    fork = terminal("fork", parent, "--json").run_id
    of_fork = terminal("fork", fork, "--json").run_id
    refused = terminal("rm", parent)
    assert refused.code == 1
    assert f"the run has forks, which refer to its results: {fork}" in refused.err
    assert f"stepwell rm --family {parent}" in refused.err
    removed = terminal("rm", "--family", parent, "--json")
    assert removed.json == {"run_ids": [of_fork, fork, parent]}
