"""`stepwell inputs` and `stepwell answer` against a real server and a real worker."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.service.cli.world import Terminal, plan_file


def ask(terminal: Terminal, **questions: Any) -> str:
    """Start a run with a task for each question; returns its id when it waits for them all."""
    tasks = [{"id": name, "type": "question", "input": given} for name, given in questions.items()]
    answer = terminal("run", "--plan", plan_file(terminal.folder, tasks), "--json")
    assert answer.code == 4, answer.err
    return str(answer.run_id)


def test_open_questions_are_listed_and_answered(terminal: Terminal) -> None:
    run_id = ask(terminal, a={"expires": 3600})
    listed = terminal("inputs")
    assert listed.code == 0
    row = next(line for line in listed.out.splitlines() if line.startswith(run_id[:8]))
    assert "input:task:a#1" in row
    assert "what of a?" in row
    assert "in 59m" in row or "in 1h" in row or "in 60m" in row
    assert "stepwell answer" in listed.err

    answered = terminal("answer", run_id[:8], '{"n": 1}')
    assert answered.code == 0, answered.err
    assert answered.out == f"run {run_id[:8]} has its answer to input:task:a#1\n"
    assert terminal("watch", run_id).code == 0
    assert run_id[:8] not in terminal("inputs").out
    of_run = terminal("inputs", run_id)
    assert "answered" in of_run.out
    shown = terminal("inputs", run_id, "--json").json["inputs"][0]
    assert shown["runId"] == run_id
    assert shown["request"]["status"] == "INPUT_STATUS_ANSWERED"


def test_one_of_several_questions_must_be_named(terminal: Terminal) -> None:
    run_id = ask(terminal, a={}, b={})
    unnamed = terminal("answer", run_id, "1")
    assert unnamed.code == 2
    assert "asks 2 questions" in unnamed.err
    assert terminal("answer", run_id, "b", "two words").code == 0
    assert terminal("answer", run_id, "input:task:a#1", "1").code == 0
    assert terminal("watch", run_id).code == 0
    assert terminal("show", run_id, "--result", "--json").json == {
        "answer": {"a": 1, "b": "two words"}
    }


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
    assert terminal("show", run_id, "--result", "--json").json == {"answer": {"a": came}}


def test_an_answer_may_have_the_run_plan_again(terminal: Terminal) -> None:
    run_id = ask(terminal, a={})
    answered = terminal("answer", run_id, "no", "--replan", "--reason", "another way")
    assert "it plans again" in answered.out, answered.err
    assert terminal("watch", run_id).code == 4
    assert terminal("answer", run_id, "after", "--yes").code == 0
    assert terminal("watch", run_id).code == 0


def test_invalid_answer_says_what_to_do(terminal: Terminal) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    run_id = ask(terminal, a={"schema": json.dumps(schema)})
    cases = {
        ("answer", run_id, '{"n": "x"}'): "answer.n: 'x' is not of type 'integer'",
        ("answer", run_id): "what is the answer?",
        ("answer", run_id, "--yes", "--no"): "give one",
        ("answer", run_id, "a", "b", "c"): "in quotes",
        ("answer", run_id, "nobody", "1"): "has asked no 'nobody'",
        ("answer", run_id, "--json-file", "nowhere.json"): "can't be read",
    }
    for arguments, said in cases.items():
        refused = terminal(*arguments)
        assert refused.code == 2, refused
        assert said in refused.err
    assert terminal("answer", run_id, "{}").code == 0
    late = terminal("answer", run_id, "a", "1")
    assert late.code == 1
    assert "was answered already" in late.err
    assert "waits for no answer" in terminal("answer", run_id, "1").err
    terminal("watch", run_id)
    assert "no run waits" in terminal("inputs").err or terminal("inputs").out
