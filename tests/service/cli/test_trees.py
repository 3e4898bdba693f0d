"""Trees of runs in the command line: children in lists."""

from __future__ import annotations

from tests.service.cli.world import Row, Terminal, plan_file


def test_ls_lists_the_children_of_a_run_and_all_of_a_tree(terminal: Terminal) -> None:
    tasks = [{"id": "talk", "type": "family", "input": ["bees", "ants"]}]
    followed = terminal(
        "run", "-q", "default", "--json", "--plan", plan_file(terminal.folder, tasks)
    )
    # A run that waits for children is followed to its end.
    assert followed.code == 0, terminal("show", followed.run_id).out
    run = followed.run_id

    children = terminal("ls", "--child-of", run, "--json").json["runs"]
    assert sorted(one["spec"]["goal"] for one in children) == ["ants", "bees"]
    kid = children[0]["spec"]["run_id"]
    assert terminal("ls", "--tree", run, "--json").json["runs"] == children
    assert terminal("ls", "--tree", kid, "--json").json["runs"] == children
    terminal.plays(
        run,
        Row("ls --child-of {run}", 0, "bees  (child of {short})"),
        Row(f"ls --child-of {kid}", 0, err="no runs"),
    )
