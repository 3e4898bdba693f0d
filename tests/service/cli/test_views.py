"""Views of a run that are folded from its events: they come to the rows that the server has."""

from __future__ import annotations

from tests.service.cli.world import Terminal


def test_followed_records_are_what_the_server_has(terminal: Terminal) -> None:
    from stepwell_client import RunView, SyncClient

    run_id = terminal("run", "--json", "--goal", "twice").run_id
    token = terminal.folder / "state" / "stepwell" / "token"
    with SyncClient(terminal.variables["STEPWELL_TARGET"], token_file=token) as client:
        run = client.run(run_id)
        view = RunView.before_events(run.get())
        for event in run.watch():
            if view.lacks_tasks(event):
                view.add_tasks(run.tasks())
            view.apply(event)
        assert view.run == run.get()
        assert view.tasks == {one.id: one for one in run.tasks()}
        assert view.executions == {one.id: one for one in run.executions()}
    assert len(view.executions) > len(view.tasks) > 0
