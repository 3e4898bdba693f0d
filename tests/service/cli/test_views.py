"""Views of a run that are folded from its events: they come to the rows that the server has."""

from __future__ import annotations

from tests.service.cli.world import Terminal


def test_followed_run_shows_what_the_server_has(terminal: Terminal) -> None:
    """The tree is folded from events alone, so it must come to the rows."""
    from stepwell_client.internal import MessageView, SyncMessageClient

    run_id = terminal("run", "--json", "--goal", "twice").run_id
    token = terminal.folder / "state" / "stepwell" / "token"
    with SyncMessageClient(terminal.variables["STEPWELL_TARGET"], token_file=token) as client:
        run = client.get(run_id)
        view = MessageView.before_events(run)
        for event in client.watch(run_id):
            if view.lacks_tasks(event):
                view.add_tasks(client.tasks(run_id))
            view.apply(event)
        rows = {entry.task.task_id: entry.task for entry in client.tasks(run_id)}
        executions = list(client.executions(run_id))

    for name in ("status", "phase", "iteration", "counts", "result_id", "started_time", "version"):
        assert getattr(view.run, name) == getattr(run, name), name
    for task_id, task in view.tasks.items():
        for name in ("status", "attempts", "started_time", "ended_time", "revision"):
            assert getattr(task, name) == getattr(rows[task_id], name), (task_id, name)
    assert [one.execution_id for one in executions] == list(view.executions)
    for one in executions:
        folded = view.executions[one.execution_id]
        for name in ("kind", "task_id", "status", "attempt", "leased_time", "ended_time"):
            assert getattr(folded, name) == getattr(one, name), (one.execution_id, name)


def test_followed_records_are_what_the_server_has(terminal: Terminal) -> None:
    from stepwell_client import RunView, SyncClient

    run_id = terminal("run", "--json", "--goal", "twice").run_id
    token = terminal.folder / "state" / "stepwell" / "token"
    with SyncClient(terminal.variables["STEPWELL_TARGET"], token_file=token) as client:
        run = client.run(run_id)
        view = RunView.before_events(run.refresh())
        for event in run.watch():
            if view.lacks_tasks(event):
                view.add_tasks(run.tasks())
            view.apply(event)
        assert view.run == run.refresh()
        assert view.tasks == {one.id: one for one in run.tasks()}
        assert view.executions == {one.id: one for one in run.executions()}
    assert len(view.executions) > len(view.tasks) > 0
