"""`stepwell questions` and `stepwell answer` against a real server and a real worker."""

from __future__ import annotations

import json
import re
import signal
from typing import Any

import pytest

from tests.service.cli.world import Row, Terminal, end, plan_file, read_until, working

SCHEMA = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}})


def ask(terminal: Terminal, **questions: Any) -> str:
    """Start a run with a task for each question; returns its id when it waits for them all."""
    tasks = [{"id": name, "type": "question", "input": given} for name, given in questions.items()]
    answer = terminal("run", "--plan", plan_file(terminal.folder, tasks), "--json")
    assert answer.code == 4, answer.err
    return str(answer.run_id)


def test_open_questions_are_listed_and_answered(terminal: Terminal) -> None:
    run_id = ask(terminal, a={"expires": 3600})
    listed = terminal("questions")
    row = next(line for line in listed.out.splitlines() if line.startswith(run_id[:8]))
    assert re.search(r" in (59m|60m|1h)", row)
    assert "question:task:a#1" in row
    assert "what of a?" in row
    assert "stepwell answer" in listed.err
    terminal.plays(
        run_id,
        Row("answer {short} '{\"n\": 1}'", 0, "run {short} has its answer to question:task:a#1\n"),
        Row("watch {run}", 0),
        Row("questions {run}", 0, "answered"),
    )
    assert run_id[:8] not in terminal("questions").out
    shown = terminal("questions", run_id, "--json").json["questions"][0]
    assert shown["run_id"] == run_id
    assert shown["question"]["status"] == "QUESTION_STATUS_ANSWERED"


def test_one_of_several_questions_must_be_named(terminal: Terminal) -> None:
    run_id = ask(terminal, a={}, b={})
    terminal.plays(
        run_id,
        Row("answer {run} 1", 2, err="asks 2 questions"),
        Row("answer {run} b 'two words'", 0),
        Row("answer {run} question:task:a#1 1", 0),
        Row("watch {run}", 0),
    )
    shown = terminal("show", run_id, "--result", "--json").json
    assert shown == {"result": {"a": 1, "b": "two words"}}


@pytest.mark.parametrize(
    ("question", "words", "came"),
    [
        ({"kind": "APPROVAL"}, ["--yes"], True),
        ({"kind": "APPROVAL"}, ["--no"], False),
        ({"kind": "APPROVAL"}, ["no"], False),
        ({"kind": "CHOICE", "choices": ["1", "2"]}, ["2"], "2"),
        ({"kind": "CHOICE", "choices": ["1", "2"]}, ["a", "--choice", "1"], "1"),
        ({}, ["--json-file", "-"], [1, 2]),
    ],
)
def test_answers_of_each_kind(
    terminal: Terminal, question: dict[str, Any], words: list[str], came: Any
) -> None:
    run_id = ask(terminal, a=question)
    answered = terminal("answer", run_id, *words, "--json", stdin="[1, 2]")
    assert answered.code == 0, answered.err
    assert answered.json["changed"] is True
    assert terminal("watch", run_id).code == 0
    assert terminal("show", run_id, "--result", "--json").json == {"result": {"a": came}}


def test_run_whose_workers_version_is_gone_says_so_and_goes_on_in_a_fork(
    terminal: Terminal,
) -> None:
    plan = plan_file(terminal.folder, [{"id": "a", "type": "question"}], "pinned.json")
    with working(terminal, "--queue", "old", "--version", "1.4", "--id", "w-old"):
        started = terminal("run", "--plan", plan, "-q", "old", "--worker-version", "1.4", "--json")
        assert started.code == 4, started.err
    run_id = started.run_id
    with working(terminal, "--queue", "old", "--version", "1.5", "--id", "w-new"):
        assert "; it goes on with a worker of version 1.4" in terminal("answer", run_id, "7").out
        watching = terminal.spawn("watch", run_id)
        read_until(
            watching.stderr, f"--queue old --version 1.4, or go on in a fork: .*{run_id[:8]}"
        )
        end(watching, signal.SIGINT)
        forked = terminal("fork", run_id, "--worker-version", "any", "--json")
        assert forked.code == 0, forked.err
    terminal("cancel", run_id)


def test_an_answer_may_have_the_run_plan_again(terminal: Terminal) -> None:
    terminal.plays(
        ask(terminal, a={}),
        Row("answer {run} no --replan --reason 'another way'", 0, "it plans again"),
        Row("watch {run}", 4),
        Row("answer {run} after --yes", 0),
        Row("watch {run}", 0),
    )


def test_invalid_answer_says_what_to_do(terminal: Terminal) -> None:
    terminal.plays(
        ask(terminal, a={"schema": SCHEMA}),
        Row('answer {run} \'{"n": "x"}\'', 2, err="answer.n: 'x' is not of type 'integer'"),
        Row("answer {run}", 2, err="what is the answer?"),
        Row("answer {run} --yes --no", 2, err="give one"),
        Row("answer {run} a b c", 2, err="in quotes"),
        Row("answer {run} nobody 1", 2, err="has asked no 'nobody'"),
        Row("answer {run} --json-file nowhere.json", 2, err="can't be read"),
        Row("answer {run} {}", 0),
        Row("answer {run} a 1", 1, err="was answered already"),
        Row("answer {run} 1", 2, err="waits for no answer"),
    )


def test_answer_by_a_token_takes_the_answer_alone(terminal: Terminal) -> None:
    refused = terminal("answer", "--token", "stwa_nothing", "1")
    assert (refused.code, "no question has this token" in refused.err) == (2, True)
    two = terminal("answer", "--token", "stwa_nothing", "1", "--yes")
    assert (two.code, "goes the answer alone" in two.err) == (2, True)
