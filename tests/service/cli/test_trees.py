"""Trees of runs in the command line: children in lists, beside their run, and followed with it."""

from __future__ import annotations

import json

from tests.service.cli.world import Row, Terminal, end, plan_file, read_until, start


def test_ls_lists_the_children_of_a_run_and_all_of_a_tree(terminal: Terminal) -> None:
    tasks = [{"id": "talk", "type": "family", "input": ["bees", "ants"]}]
    run = terminal(
        "run", "-q", "default", "--json", "--plan", plan_file(terminal.folder, tasks)
    ).run_id

    children = terminal("ls", "--child-of", run, "--json").json["runs"]
    assert sorted(one["spec"]["goal"] for one in children) == ["ants", "bees"]
    kid = children[0]["spec"]["run_id"]
    assert terminal("ls", "--tree", run, "--json").json["runs"] == children
    assert terminal("ls", "--tree", kid, "--json").json["runs"] == children
    terminal.plays(
        run,
        Row("ls --child-of {run}", 0, "bees  (child of {short})"),
        Row(f"ls --child-of {kid}", 0, err="no runs"),
        Row("show {run}", 0, "\n2 child runs"),
        Row("show {run}", 0, "talk bees"),
        Row("show {run} --json", 0, '"more_children": 0'),
        Row("show {run} --at 1", 0),
        Row(f"show {kid}", 0, "child of    {short}, task talk"),
        Row("watch {run} --tree", 0, f"{kid[:8]}  "),
        Row(f"watch {kid} --tree", 0, "{short}  ", "its tree begins at run {short}"),
        Row("watch {run} --tree --after 1", 2, err="leave it with --tree"),
    )

    events = terminal("watch", run, "--tree", "--json").json_lines
    assert {one["run_id"] for one in events[:-1]} == {
        run,
        *(one["spec"]["run_id"] for one in children),
    }
    assert events[-1]["run"]["spec"]["run_id"] == run


def test_a_run_that_waits_for_a_child_is_followed_until_it_ends(terminal: Terminal) -> None:
    task = {"id": "talk", "type": "family", "input": ["note"]}
    run = start(terminal, task, queue="default")
    while not (children := terminal("ls", "--child-of", run, "--json").json["runs"]):
        pass
    while run not in terminal("ls", "--blocked-on", "child", "--json").out:
        pass
    followers = [terminal.spawn("watch", run, *options) for options in ((), ("--tree", "--json"))]
    for one in followers:
        read_until(one.stdout, "talk")
    assert terminal("signal", children[0]["spec"]["run_id"], "note", json.dumps("go")).code == 0
    for one in followers:
        assert one.wait(60) == 0
        end(one)
