"""`stepwell budget`, `retry`, `skip` and `stop` against a real server and a real worker."""

from __future__ import annotations

from tests.service.cli.world import Row, Terminal, start

FLAKY = {
    "id": "a",
    "type": "fail",
    "on_failure": "skip_dependents",
    "retry": {"max_attempts": 1},
}


def test_a_budget_is_shown_part_by_part(terminal: Terminal) -> None:
    answer = terminal("budget", start(terminal, {"id": "a"})[:8])

    assert answer.code == 0, answer.err
    rows = {line[:14].strip(): line.split()[-3:] for line in answer.out.splitlines()}
    assert rows["PART"] == ["USED", "LIMIT", "LEFT"]
    assert rows["input tokens"] == ["0", "1,000", "1,000"]
    assert rows["tasks"] == ["1", "-", "-"]
    assert rows["cost"] == ["0", "-", "-"]
    assert rows["wall time"] == ["0.00s", "1h00m", "1h00m"]


def test_a_budget_is_raised_and_never_lowered(terminal: Terminal) -> None:
    run_id = start(terminal, {"id": "a"})
    raised = terminal("budget", run_id, "--tokens-in", "2000", "--wall", "2h")
    assert all(text in raised.out for text in ("may use up more", "2,000", "2h00m"))
    terminal.plays(
        run_id,
        Row("budget {run} --tokens-in 2000 --json", 0, '"changed": false'),
        Row(
            "budget {run} --tokens-in 10",
            2,
            err="budget.input_tokens: 10 would be lower: the limit is 2000",
        ),
        Row("budget {run} --cost 0.5", 2, err="budget.cost_micros"),
        Row("budget {run} --wall soon", 2),
        Row("budget {run} --json", 0, '"input_tokens": 2000'),
    )


def test_a_task_is_skipped_with_those_that_depend_on_it(terminal: Terminal) -> None:
    terminal.plays(
        start(terminal, {"id": "a"}, {"id": "b", "depends_on": ["a"]}, {"id": "c"}),
        Row(
            "skip {run} a --dependents --reason gone --for ann",
            0,
            "task a of run {short} is skipped\n",
        ),
        Row("show {run}", 0, "changed by  local for ann"),
        Row("skip {run} a", 0, "was skipped already"),
        Row("skip {run} nobody", 2, err="there is no task 'nobody' in this run"),
        Row("skip {run} c --json", 0, '"changed": true'),
        Row("watch {run}", 0, "skipped: gone (by local for ann)"),
        Row("skip {run} c", 1, err="the run is over, SUCCEEDED"),
    )


def test_a_failed_task_runs_again(terminal: Terminal) -> None:
    asks = {"id": "asks", "type": "ask"}
    terminal.plays(
        start(terminal, FLAKY, {"id": "b", "depends_on": ["a"]}, asks, queue="default"),
        Row("watch {run}", 4),
        Row("show {run}", 0, "1 failed, 1 skipped"),
        Row("retry {run} a --reason mended", 0, "task a of run {short} runs again\n"),
        Row("retry {run} asks", 1, err="task 'asks' is BLOCKED"),
        Row("watch {run}", 4, "is run again: mended"),
    )


def test_a_run_is_to_end_after_its_iteration(terminal: Terminal) -> None:
    terminal.plays(
        start(terminal, {"id": "a"}),
        Row("stop {run} --reason enough", 0, "run {short} ends after iteration 1\n"),
        Row("stop {run}", 0, "was to end already"),
        Row("stop {run} --json", 0, '"stopping": true'),
    )


def test_signals_that_a_run_keeps_are_listed_and_counted(terminal: Terminal) -> None:
    run_id = start(terminal, {"id": "a"})
    assert "keeps no signal" in terminal("signals", run_id).err
    for name, value in (("note", '{"text": "prices"}'), ("stop", "null"), ("note", "just text")):
        assert terminal("signal", run_id, name, value).code == 0
    listed = terminal("signals", run_id)
    lines = listed.out.splitlines()
    assert lines[0].split() == ["NUMBER", "NAME", "SENT", "BY", "VALUE"]
    assert [line.split()[:2] for line in lines[1:]] == [["1", "note"], ["2", "stop"], ["3", "note"]]
    assert lines[1].endswith('{"text":"prices"}')
    assert lines[3].endswith('"just text"')
    kept = terminal("signals", run_id, "--json").json["signals"]
    assert [(one["number"], one["name"]) for one in kept] == [(1, "note"), (2, "stop"), (3, "note")]
    assert "signals     3 kept: note 2, stop 1" in terminal("show", run_id).out
