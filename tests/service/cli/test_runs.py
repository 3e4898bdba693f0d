"""The command line against a real server and a real worker: every command, every exit code."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stepwell_client import RunStatus
from tests.service.cli.world import Row, Terminal, end, plan_file, read_until, working


def start(terminal: Terminal, *arguments: str) -> str:
    """Start a run that nobody serves, unless a queue is named; returns its id."""
    answer = terminal("run", "--detach", "--queue", "nobody", *arguments)
    assert answer.code == 0, answer.err
    return answer.out.strip()


# --- following ---------------------------------------------------------------------------------------


def test_a_run_is_followed_to_its_result(terminal: Terminal) -> None:
    answer = terminal("run", "--goal", "twice")

    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    assert "started: twice" in lines[0]
    assert any("plan 1: 2 tasks" in line for line in lines)
    assert any("task c" in line and "completed in" in line for line in lines)
    assert any("decided: finish: enough" in line for line in lines)
    assert any("succeeded in" in line and "3 of 3 tasks" in line for line in lines)
    assert answer.out.endswith("# Report\n\ntwice: a, b, c\n")


def test_a_run_in_json_is_lines_of_events_and_a_document_at_last(terminal: Terminal) -> None:
    answer = terminal("run", "--goal", "once", "--json")

    *events, last = answer.json_lines
    assert [one["event"]["number"] for one in events] == [n + 1 for n in range(len(events))]
    assert events[0]["event"]["type"] == "EVENT_TYPE_RUN_STARTED"
    assert last["run"]["status"] == "RUN_STATUS_SUCCEEDED"
    assert last["run"]["spec"]["goal"] == "once"
    assert last["result"] == "# Report\n\nonce: a, b"
    assert answer.code == 0
    shown = terminal("show", answer.run_id, "--json").json
    assert shown["run"]["counts"]["completed"] == 2
    assert [one["spec"]["task_id"] for one in shown["tasks"]] == ["a", "b"]
    assert [one["kind"] for one in shown["executions"]].count("STEP_KIND_TASK") == 2
    assert shown["result"] == last["result"]
    result = Row("show {run} --result", 0, "# Report\n\nonce: a, b\n")
    terminal.plays(answer.run_id, result)


def test_a_plan_file_is_run_and_its_tasks_are_the_answer(terminal: Terminal) -> None:
    plan = plan_file(
        terminal.folder,
        [
            {"id": "one", "type": "echo", "input": 20},
            {"id": "two", "type": "echo", "input": 22, "onFailure": "continue"},
            {"id": "all", "type": "sum", "depends_on": ["one", "two"]},
        ],
    )
    answer = terminal("run", "--plan", plan)

    assert answer.code == 0, answer.err
    assert answer.out.splitlines()[-3:] == ["one: 20", "two: 22", "all: 42"]


def test_a_failed_run_is_1_and_a_resume_goes_on_with_it(terminal: Terminal) -> None:
    once = {"maxAttempts": "1"}
    tasks = [{"id": "bad", "type": "fail", "retry": once}]
    answer = terminal("run", "--plan", plan_file(terminal.folder, tasks))

    assert answer.code == 1
    assert "RuntimeError: it is broken �[31m" in answer.out
    assert "\x1b" not in answer.out + answer.err
    assert "once the cause is mended, go on: stepwell resume " in answer.err
    again = terminal("resume", answer.err.split()[-1])
    assert again.code == 1
    assert "goes on" in again.out
    assert "taken by" in again.out
    assert "attempt 2" in again.out
    assert "started:" not in again.out  # What was before the resume is no news.


def test_a_run_that_waits_is_4(terminal: Terminal) -> None:
    plan = plan_file(terminal.folder, [{"id": "ask", "type": "ask"}])
    answer = terminal("run", "--plan", plan, "--goal", "asks")

    assert answer.code == 4
    assert "asks: may I?" in answer.out
    run_id = terminal("ls", "--status", "waiting", "--json").json["runs"][0]["spec"]["run_id"]
    terminal.plays(
        run_id,
        Row("show {run}", 0, "a person is asked: may I?"),
        Row("show {run}", 0, "asks: may I?"),
    )


def test_a_cancelled_run_is_3_to_who_follows_it(terminal: Terminal) -> None:
    terminal.plays(
        start(terminal, "--goal", "no"),
        Row("cancel {run} --reason wrong", 0, "run {short} is cancelled\n"),
        Row("cancel {run}", 0, "was cancelled already"),
        Row("watch {run}", 3, "was cancelled"),
        Row("resume {run}", 1, err="fork"),
    )


def test_a_paused_run_is_4_until_it_is_resumed(terminal: Terminal) -> None:
    terminal.plays(
        start(terminal),
        Row("pause {run} --reason lunch", 0, "run {short} is paused\n"),
        Row("pause {run}", 0, "was paused already"),
        Row("watch {short}", 4, "paused: lunch", "go on: stepwell resume {short}"),
        Row("resume {run} --detach", 0, err="goes on"),
        Row("pause {run} --json", 0, '"changed": true'),
        Row("cancel {run}", 0),
    )


def test_ctrl_c_leaves_the_run_going_and_says_how_to_follow_it(terminal: Terminal) -> None:
    plan = plan_file(terminal.folder, [{"id": "long", "type": "slow"}], "slow.json")
    following = terminal.spawn("run", "--plan", plan)
    run = read_until(following.stdout, r"run (\w{8}) +started")[1]
    read_until(following.stdout, "task long +taken by")
    answer = end(following, signal.SIGINT)

    assert answer.code == 130
    assert answer.err == f"the run goes on; follow it again: stepwell watch {run}\n"
    assert terminal("show", run, "--json").json["run"]["status"] == "RUN_STATUS_RUNNING"
    assert terminal("cancel", run).code == 0


def test_same_request_id_returns_the_same_run(terminal: Terminal) -> None:
    first = start(terminal, "--request-id", "nightly", "--goal", "x")

    assert start(terminal, "--request-id", "nightly", "--goal", "x") == first
    other = terminal("run", "-d", "--request-id", "nightly", "--goal", "y")
    assert other.code == 2
    assert "request_id" in other.err


# --- reading -----------------------------------------------------------------------------------------


def test_ls_shows_columns_and_takes_filters(terminal: Terminal) -> None:
    run_id = start(
        terminal, "--goal", "a goal\nof two lines", "--label", "team=search", "-p", "pipe"
    )
    answer = terminal("ls", "--label", "team=search")

    head, line = answer.out.splitlines()
    assert head.split() == ["RUN", "STATUS", "TASKS", "STARTED", "TOOK", "PIPELINE", "GOAL"]
    assert line.split()[:3] == [run_id[:8], "QUEUED", "-"]
    assert line.index("a goal of two lines") == head.index("GOAL")
    assert "no worker serves queue 'nobody'" in line
    found = terminal("ls", "--status", "queued", "--blocked-on", "worker", "--json", "-n", "1")
    assert found.json["runs"][0]["spec"]["run_id"] == run_id
    assert terminal("ls", "--label", "team=nobody", "--json").json == {"runs": [], "more": False}
    assert "no runs" in terminal("ls", "--label", "team=nobody").err
    start(terminal, "--goal", "long " * 100, "--label", "long=goal")
    assert "long lon…  (no worker serves queue" in terminal("ls", "--label", "long=goal").out


def test_a_run_in_another_queue_shows_which_queues_are_served(terminal: Terminal) -> None:
    plan = plan_file(terminal.folder, [{"id": "a", "type": "echo"}], "echo.json")
    with working(terminal, "--queue", "here", "--queue", "there", "--id", "w-queues"):
        run_id = start(terminal, "-q", "elsewhere", "--plan", plan)
        shown = terminal("show", run_id).err
        assert "connected workers serve 'default', 'here', 'there'; let them serve" in shown
        assert "--queue elsewhere), or start runs with --queue default" in shown
        following = terminal.spawn("watch", run_id, "--wait")
        read_until(following.stderr, "no worker serves queue 'elsewhere'.*connected workers serve")
        end(following, signal.SIGINT)
    terminal("cancel", run_id)


def test_a_worker_serves_the_queues_that_its_agent_names(terminal: Terminal) -> None:
    plan = plan_file(terminal.folder, [{"id": "a", "type": "echo"}], "echo.json")
    code = "from stepwell_client import Agent\nagent = Agent('named', queues=['named'])\n"
    code += "@agent.task('echo')\ndef echo(ctx, value: int = 1):\n    return value\n"
    (terminal.folder / "queues_agent.py").write_text(code)
    worker = terminal.spawn("worker", "queues_agent:agent", "--id", "w-named")
    read_until(worker.stderr, "of queue named")
    read_until(worker.stderr, "serves replica")
    run_id = start(terminal, "-q", "named", "--plan", plan)
    assert terminal("watch", run_id, "--wait").code == 0
    end(worker)


def test_ls_shows_why_a_run_failed_behind_a_long_goal(terminal: Terminal) -> None:
    tasks = [{"id": "bad", "type": "fail", "retry": {"maxAttempts": "1"}}]
    goal = ("--goal", "long " * 100, "--label", "why=failed")
    assert terminal("run", *goal, "--plan", plan_file(terminal.folder, tasks)).code == 1

    listed = terminal("ls", "--label", "why=failed", COLUMNS="100").out
    assert "long lon…  (RuntimeError: it is broken" in listed


def test_following_a_run_without_workers_says_so(terminal: Terminal) -> None:
    run_id = start(terminal, "--goal", "alone")
    watching = terminal.spawn("watch", run_id)
    read_until(watching.stderr, "no worker serves queue 'nobody'; start one: stepwell worker")
    read_until(watching.stdout, "started: alone")
    end(watching, signal.SIGINT)


def test_worker_that_connects_in_time_is_not_missed(terminal: Terminal) -> None:
    from stepwell.cli.view.follow import missing_worker
    from stepwell_client import SyncClient

    plan = plan_file(terminal.folder, [{"id": "ask", "type": "ask"}])
    run_id = terminal("run", "--detach", "-q", "late", "--plan", plan).out.strip()
    token = terminal.folder / "state" / "stepwell" / "token"
    with SyncClient(terminal.variables["STEPWELL_TARGET"], token_file=token) as client:
        before = missing_worker(client, run_id)
        with working(terminal, "--queue", "late", "--id", "late"):
            while client.run(run_id).get().status == RunStatus.QUEUED:
                pass
            after = missing_worker(client, run_id)

    assert before.startswith("no worker serves queue 'late'")
    assert after == ""


def test_show_shows_the_tree_the_details_and_the_answer(terminal: Terminal) -> None:
    run_id = terminal("run", "--json", "--goal", "twice", "--label", "a=b").run_id
    shown = terminal("show", run_id[:8]).out

    assert shown.startswith("twice\n" + run_id[:8] + "  SUCCEEDED  iteration 2 of 10 · ")
    assert "✓ plan" in shown
    assert "✓ c" in shown
    assert "once more" in shown
    assert "iteration 2\n" in shown
    assert f"id          {run_id}" in shown
    assert "labels      a=b" in shown
    assert shown.endswith("twice: a, b, c\n")


def test_a_result_of_bytes_is_printed_as_bytes(terminal: Terminal) -> None:
    run_id = terminal("run", "--json", "--goal", "bytes").run_id
    raw = terminal("show", run_id, "--result").out.encode("utf-8", "surrogateescape")

    assert raw == b"\x00\xff"
    terminal.plays(
        run_id,
        Row("show {run}", 0, "2 bytes of application/octet-stream"),
        Row("show {run} --result --json", 0, '"result": "AP8="'),
    )


def test_a_run_without_a_result_says_so(terminal: Terminal) -> None:
    none = "is QUEUED, so it has no result"
    terminal.plays(start(terminal), Row("show {run} --result", 1, err=none))


def test_rm_removes_runs_that_have_ended_and_no_others(terminal: Terminal) -> None:
    terminal.plays(
        start(terminal),
        Row("rm {run}", 1, err="cancel it first"),
        Row("cancel {run}", 0),
        Row("rm {run} zzzz", 2),
        Row("rm {run} --json", 0, '"{run}"'),
        Row("show {run}", 2),
    )


def test_purge_removes_old_runs_and_rehearses_it(terminal: Terminal) -> None:
    old = [start(terminal, "--pipeline", "purged", "--goal", name) for name in ("a", "b")]
    for run_id in old:
        terminal("cancel", run_id)
    where = ("--older-than", "0s", "--pipeline", "purged")

    rehearsed = terminal("purge", *where, "--dry-run", "-n", "1")
    assert rehearsed.out == f"run {old[0][:8]} would be removed\n"
    assert "there are more" in rehearsed.err
    assert terminal("purge", *where, "--status", "failed").err == "no run ended so long ago\n"
    assert terminal("purge", "--older-than", "30d", "--pipeline", "purged").out == ""
    assert terminal("purge", *where, "--json").json["run_ids"] == old
    assert terminal("show", old[0]).code == 2


def test_input_comes_from_the_line_a_file_or_a_pipe(terminal: Terminal) -> None:
    (terminal.folder / "input.txt").write_text("some words")

    def of(*arguments: str, stdin: str = "") -> object:
        answer = terminal("run", "-d", "-q", "nobody", *arguments, "--json", stdin=stdin)
        assert answer.code == 0, answer.err
        return answer.json["created"]

    assert of("--input", '{"n": 1}')
    assert of("--input", "@input.txt")
    assert of("--input", "@-", stdin="[1, 2]")


# --- errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "No such command"),
        (["ls", "--nonsense"], "No such option"),
        (["show"], "Missing argument"),
        (["show", "../etc"], "is no run id"),
        (["show", "abcdef01"], "no run's id begins with abcdef01"),
        (["show", "00000000-0000-4000-8000-000000000000"], "no run"),
        (["ls", "--status", "odd"], "is none of queued"),
        (["run", "--input", "word"], "is no JSON"),
        (["run", "--input", "@nowhere"], "can't be read"),
        (["run", "--plan", "nowhere"], "can't be read"),
        (["run"], "give the run something to do: --goal TEXT, --input JSON or --plan FILE"),
        (["run", "--goal", "x", "--label", "x"], "is no KEY=VALUE"),
        (["run", "--goal", "x", "--stage", "odd"], "neither reflect nor synthesize"),
        (["run", "--goal", "x", "--max-iterations", "10001"], "max_iterations: "),
        (["ls", "-n", "0"], "error: --limit: it must be at least 1; see `stepwell ls --help`"),
        (["ls", "-n", "x"], "error: --limit: it must be a whole number; see"),
        (["ls", "--target", "a.example"], "certificate (--tls-ca or STEPWELL_TLS_CA; a grpcs"),
        (["ls", "--target", "a.example"], "or take the risk with --insecure-allow-remote"),
        (["run", "--goal", "x", "--queue", "two words"], "queue: "),
        (["worker", "cli_agent"], "is no module:agent"),
        (["worker", "cli_agent.py:agent"], "name its module: cli_agent:agent"),
        (["worker", "nowhere:agent"], "there is no module 'nowhere'"),
        (["worker", "cli_agent:agnet"], "has no 'agnet'; its agents: agent"),
        (["worker", "cli_agent:other"], "has no Agent 'other'"),
        (["health", "--service", "odd"], "serves no 'odd'"),
    ],
)
def test_wrong_argument_exits_2_with_one_line(
    terminal: Terminal, arguments: list[str], said: str
) -> None:
    answer = terminal(*arguments)

    assert answer.code == 2, answer.err
    errors = [line for line in answer.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert said in errors[0]
    assert "Traceback" not in answer.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["serve", "--store", "odd://x"], "no driver opens"),
        (["serve", "--port", "0", "--host", "0.0.0.0"], "--insecure-allow-remote"),
        (["serve", "--log-level", "loud"], "log.level: it must be 'debug', 'info'"),
        (["store", "--port", "0", "--driver", "sqlite:///nowhere/at/all.db"], "nowhere"),
    ],
)
def test_a_setting_that_can_not_be_is_2_and_one_line(
    terminal: Terminal, arguments: list[str], said: str
) -> None:
    answer = terminal(*arguments)

    assert answer.code == 2, answer.err
    last = answer.err.splitlines()[-1]
    assert last.startswith("error: ")
    assert said in last
    assert "Traceback" not in answer.err


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        ([{"type": "a"}], "tasks[0].id is missing: a task is {"),
        ([{"id": "a b"}], "plan.tasks[0].id: "),
        ([{"id": "a", "nonsense": 1}], "tasks[0].nonsense: a task has no such field; it has id, "),
        (
            [{"id": "a", "effect": "maybe"}],
            "tasks[0].effect 'maybe' is none of idempotent, at_most",
        ),
        ([{"id": "a"}, {"id": "b", "depends_on": ["c"]}], "plan.tasks[1].depends_on[0]"),
        ([{"id": "a", "depends_on": ["b"]}, {"id": "b", "depends_on": ["a"]}], "cycle"),
        ([], "holds no tasks"),
    ],
)
def test_a_plan_that_is_wrong_says_where(
    terminal: Terminal, tasks: list[dict[str, object]], said: str
) -> None:
    answer = terminal("run", "--plan", plan_file(terminal.folder, [*tasks], "wrong.json"))

    assert answer.code == 2
    assert said.lower() in answer.err.lower()


def test_an_import_that_fails_shows_where(terminal: Terminal) -> None:
    (terminal.folder / "breaks.py").write_text("import json\njson.loads('{')\n")
    answer = terminal("worker", "breaks:agent")

    assert answer.code == 2
    assert "module breaks can't be imported: JSONDecodeError" in answer.err
    assert "breaks.py" in answer.err
    assert "stepwell/cli" not in answer.err


def test_no_server_or_no_good_token_is_5(terminal: Terminal) -> None:
    (terminal.folder / "wrong").write_text("0123456789abcdef0123456789abcdef")
    nobody = "error: no server answers at 127.0.0.1:1; start one with"
    terminal.plays(
        "",
        Row("health --target 127.0.0.1:1", 5),
        Row("ls --token-file nowhere", 5),
        Row("ls --token-file wrong", 5, err="wants a token"),
        Row("health --token-file wrong", 0),
        Row("--target 127.0.0.1:1 ls", 5, err=nobody),
    )
    assert terminal("ls", STEPWELL_TOKEN_FILE="nowhere").code == 5
    assert terminal("ls", XDG_STATE_HOME=str(terminal.folder / "elsewhere")).code == 5


def test_an_option_goes_over_the_environment_and_its_later_place_first(terminal: Terminal) -> None:
    address = terminal.variables["STEPWELL_TARGET"]
    assert terminal("ls", STEPWELL_TARGET="127.0.0.1:1").code == 5
    assert terminal("--target", address, "ls", STEPWELL_TARGET="127.0.0.1:1").code == 0
    assert terminal("--target", "127.0.0.1:1", "ls", "--target", address).code == 0


def test_a_reader_that_goes_away_hears_no_complaint(terminal: Terminal) -> None:
    done = subprocess.run(
        f"{sys.executable} -m stepwell ls --json | true; exit ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        env=terminal.variables,
        capture_output=True,
        check=False,
    )

    assert done.stderr == b""


def test_health_says_ready(terminal: Terminal) -> None:
    terminal.plays(
        "",
        Row("health", 0, " is ready"),
        Row("health --json", 0, '"status": "SERVING"'),
        Row("health --service stepwell.v1.Worker", 0),
    )


def test_help_is_plain_and_every_command_has_an_example(tmp_path: Path) -> None:
    from stepwell.cli import app

    type_in = Terminal(tmp_path)
    top = type_in("--help").out
    assert type_in().out == top
    for name, sentence in app.COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(sentence)}$", top, re.MULTILINE), name
        text = " ".join(type_in(name, "--help").out.split())
        assert sentence in text
        assert f"Example: stepwell {name}" in text
    assert type_in("--version").out.startswith("stepwell ")


def test_a_tree_of_thousands_shows_what_moves_and_counts_the_rest() -> None:
    from stepwell.cli.view import task_rows
    from stepwell_client import Run, RunTask, RunView, Task, TaskStatus

    view = RunView(Run(iteration=1))
    states = [
        *(TaskStatus.COMPLETED for _ in range(4_000)),
        *(TaskStatus.RUNNING for _ in range(3)),
        *(TaskStatus.PENDING for _ in range(6_000)),
    ]
    view.add_tasks(
        RunTask(
            id=f"t{n}",
            revision=1,
            status=status,
            definition=Task(f"t{n}", depends_on=[f"t{n - 1}"] if n else []),
            ended_time=datetime.fromtimestamp(5, UTC) if n == 7 else None,
        )
        for n, status in enumerate(states)
    )
    rows, left = task_rows.chosen(task_rows.rows(view, 10_000_000), 10)

    assert [row.name for row in rows][:4] == ["t7", "t4000", "t4001", "t4002"]
    assert len(rows) == 9
    assert left == "… and 5,995 pending, 3,999 completed"
    assert max(row.indent for row in rows) <= 5


def test_json_that_is_printed_is_safe_to_look_at() -> None:
    from stepwell.cli.view import text

    said = json.dumps({"a": "\x9b31m\u202e"}, ensure_ascii=False)

    assert text.json_safe(said) == '{"a": "\\u009b31m\\u202e"}'
    assert json.loads(text.json_safe(said)) == {"a": "\x9b31m\u202e"}
