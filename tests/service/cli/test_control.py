"""`stepwell budget`, `retry`, `skip` and `stop` against a real server and a real worker."""

from __future__ import annotations

from tests.service.cli.world import Terminal, start

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
    answer = terminal("budget", run_id, "--tokens-in", "2000", "--wall", "2h")
    assert answer.code == 0, answer.err
    assert "may use up more" in answer.out
    assert "2,000" in answer.out
    assert "2h00m" in answer.out
    again = terminal("budget", run_id, "--tokens-in", "2000", "--json")
    assert again.json["changed"] is False
    lower = terminal("budget", run_id, "--tokens-in", "10")
    assert lower.code == 2
    assert "budget.input_tokens: 10 would be lower: the limit is 2000" in lower.err
    none = terminal("budget", run_id, "--cost", "0.5")
    assert "budget.cost_micros" in none.err
    assert terminal("budget", run_id, "--wall", "soon").code == 2
    assert terminal("budget", run_id, "--json").json["budget"]["inputTokens"] == "2000"


def test_a_task_is_skipped_with_those_that_depend_on_it(terminal: Terminal) -> None:
    run_id = start(terminal, {"id": "a"}, {"id": "b", "depends_on": ["a"]}, {"id": "c"})
    answer = terminal("skip", run_id, "a", "--dependents", "--reason", "gone")
    assert answer.out == f"task a of run {run_id[:8]} is skipped\n"
    assert "was skipped already" in terminal("skip", run_id, "a").out
    unknown = terminal("skip", run_id, "nobody")
    assert unknown.code == 2
    assert "there is no task 'nobody' in this run" in unknown.err
    assert terminal("skip", run_id, "c", "--json").json["changed"] is True
    assert "skipped: gone" in terminal("watch", run_id).out
    ended = terminal("skip", run_id, "c")
    assert ended.code == 1
    assert "the run is over, SUCCEEDED" in ended.err


def test_a_failed_task_runs_again(terminal: Terminal) -> None:
    asks = {"id": "asks", "type": "ask"}
    run_id = start(terminal, FLAKY, {"id": "b", "depends_on": ["a"]}, asks, queue="default")
    assert terminal("watch", run_id).code == 4
    assert "1 failed, 1 skipped" in terminal("show", run_id).out
    retried = terminal("retry", run_id, "a", "--reason", "mended")
    assert retried.out == f"task a of run {run_id[:8]} runs again\n"
    refused = terminal("retry", run_id, "asks")
    assert refused.code == 1
    assert "task 'asks' is BLOCKED" in refused.err
    assert "is run again: mended" in terminal("watch", run_id).out


def test_a_run_is_to_end_after_its_iteration(terminal: Terminal) -> None:
    run_id = start(terminal, {"id": "a"})
    said = f"run {run_id[:8]} ends after iteration 1\n"
    assert terminal("stop", run_id, "--reason", "enough").out == said
    assert "was to end already" in terminal("stop", run_id).out
    assert terminal("stop", run_id, "--json").json["run"]["stopping"] is True
