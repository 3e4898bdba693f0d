"""The demo with a language model from end to end, with the scripted model in its place; and its parts."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path

import jsonschema
import pytest

from examples.researcher.agent import TEXTS, publish
from examples.researcher.ledger import Calls, Ledger, Line, Mark, tallies, violations
from examples.researcher.library import list_files, read_file, search_word, sentences
from examples.researcher.models import LocalModel, Model, NoModel, Schema, ScriptedModel, weights
from examples.researcher.prompts import TEXTS_MIN, Work, conclusion, next_move, quote
from examples.researcher.report import add_report, count_reports
from stepwell.embedded import Orchestrator
from stepwell_client import (
    Agent,
    Effect,
    NonRetryable,
    Retry,
    RunStatus,
    Task,
    TaskContext,
)
from tests.docs.examples.play import alive, play

PAGE = "# A report"
GOAL = "How did people get water before there were taps?"


def test_demo_of_the_researcher_pays_no_recorded_answer_twice(tmp_path: Path) -> None:
    done = play("researcher", "--model=scripted", "--pace=0.4", f"--state={tmp_path / 'state'}")
    said = done.stdout

    assert done.returncode == 0, said
    assert "Model: a SCRIPTED one, as was asked for." in said
    killed = re.findall(r"kill -9 \d+: the (\w+) is dead, after event \d+", said)
    assert killed == ["worker", "server"], said
    pids = {int(pid) for pid in re.findall(r"pid (\d+)", said)}
    assert len(pids) == 4
    assert not [pid for pid in pids if alive(pid)]
    assert re.search(r"no call was made again that had been acknowledged", said), said

    [state] = (tmp_path / "state").iterdir()
    reports = (state / "reports.md").read_text(encoding="utf-8")
    assert reports.count(f"# {GOAL}") == 1
    assert "- A stepwell is a well that people walk down into.\n- Stairs lead" in reports
    counted = tallies(Ledger(state / "ledger.jsonl").read())
    # A search, and for each text a move and the quotes; then the conclusion.
    texts = len(list_files(str(TEXTS)))
    assert counted["model"].calls == 2 * texts + 2
    assert counted["read_file"].calls == texts
    assert counted["write_report"].calls == counted["write_report"].made == 1
    # The attempt after the answer found what had been recorded before the question; the one after the kill found more.
    assert counted["model"].found >= 2 + 5
    row = next(line for line in said.splitlines() if line.startswith("  model "))
    model = counted["model"]
    figures = [model.calls, model.made, model.cut, model.found]
    assert row.split()[1:5] == [str(figure) for figure in figures]
    assert row.split()[5:7] == [f"{model.tokens_used:,}", f"{model.tokens_found:,}"]


def test_demo_with_too_few_texts_says_where_it_looked(tmp_path: Path) -> None:
    done = play("researcher", "--model=scripted", f"--texts={tmp_path}")

    assert done.returncode == 1
    assert f"error: there are no .txt or .md files in {tmp_path}; try: make demo" in done.stdout


def test_demo_that_could_not_kill_in_time_fails(tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    for n in range(TEXTS_MIN):
        (texts / f"{n}.txt").write_text("A heading without a text\n")

    done = play(
        "researcher", "--model=scripted", f"--texts={texts}", "--pace=0", f"--state={tmp_path}"
    )

    assert done.returncode == 1, done.stdout
    assert "VIOLATED: the run was over before worker and server had been killed" in done.stdout
    assert "Checked" not in done.stdout


# What the ledger shows of a broken promise.

MADE = Line(Mark.BEGAN, "model", "first", "model/1")
ENDED = Line(Mark.ENDED, "model", "first", "model/1", tokens=7)
RECORDED = Line(Mark.RECORDED, "model", "first", "model/1", tokens=7)
FOUND = Line(Mark.FOUND, "model", "second", tokens=7)
MADE_AGAIN = Line(Mark.BEGAN, "model", "second", "model/1")
ENDED_AGAIN = Line(Mark.ENDED, "model", "second", "model/1", tokens=7)
RECORDED_AGAIN = Line(Mark.RECORDED, "model", "second", "model/1", tokens=7)


@pytest.mark.parametrize(
    ("lines", "recorded", "found"),
    [
        ([MADE, ENDED, RECORDED, FOUND], {"model/1": "first"}, None),
        # The worker was killed before the answer was recorded: nobody had acknowledged it.
        ([MADE, MADE_AGAIN, ENDED_AGAIN, RECORDED_AGAIN], {"model/1": "second"}, None),
        # The answer was recorded, and the worker killed before it went on with it.
        ([MADE, ENDED, FOUND], {"model/1": "first"}, None),
        ([MADE, ENDED, MADE_AGAIN], {"model/1": "first"}, "attempt second made it again"),
        ([MADE, ENDED, RECORDED, MADE, ENDED], {"model/1": "first"}, "made twice by one attempt"),
        ([MADE, ENDED, RECORDED], {}, "was acknowledged, and the journal has it not"),
        ([MADE, ENDED, RECORDED, MADE_AGAIN], {"model/1": "second"}, "the journal has it not"),
    ],
)
def test_ledger_shows_a_call_that_was_made_again_or_lost(
    lines: list[Line], recorded: Mapping[str, str], found: str | None
) -> None:
    broken = violations(lines, recorded)

    assert bool(broken) == (found is not None)
    assert found is None or found in broken[0]


def test_ledger_counts_calls_cut_off_by_a_kill_and_tokens_of_found_answers() -> None:
    tally = tallies([MADE, MADE_AGAIN, ENDED_AGAIN, RECORDED_AGAIN, FOUND, FOUND])["model"]

    assert (tally.calls, tally.made, tally.cut, tally.found) == (1, 2, 1, 2)
    assert (tally.tokens_used, tally.tokens_found) == (7, 14)


async def test_report_of_an_attempt_that_was_cut_off_is_found_and_not_written_again(
    tmp_path: Path,
) -> None:
    reports, ledger = str(tmp_path / "reports.md"), Ledger(tmp_path / "ledger.jsonl")
    cut = Agent("cut")

    @cut.task("publish")
    async def publish_twice(ctx: TaskContext) -> str:
        if ctx.attempt > 1:
            return await publish(ctx, Calls(ctx, ledger), reports, PAGE)

        async def write(page: str) -> None:
            add_report(reports, ctx.call_key, page)
            await asyncio.Event().wait()  # Until the attempt's time is over.

        await ctx.call("write_report", write, PAGE, effect=Effect.AT_MOST_ONCE)
        raise AssertionError("nothing ends the call")

    task = Task("a", "publish", retry=Retry(initial_backoff=0.0), attempt_timeout=0.3)
    result = await Orchestrator("publish", cut, plan=[task]).run()

    assert result.run.status == RunStatus.SUCCEEDED
    assert [line.mark for line in ledger.read()] == [Mark.FOUND]
    [report] = (tmp_path / "reports.md").read_text(encoding="utf-8").split("<!--")[:-1]
    assert report.strip() == PAGE


def test_report_that_is_added_twice_is_counted_twice(tmp_path: Path) -> None:
    file = str(tmp_path / "out" / "reports.md")
    for key in ("run/write/1", "run/write/1", "run/write/11"):
        add_report(file, key, "# A report")

    assert count_reports(file, "run/write/1") == 2
    assert count_reports(file, "/write/11") == 1
    assert count_reports(str(tmp_path / "none.md"), "run/write/1") == 0


# The tools, and the models.


def test_tools_read_the_texts_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text(
        "# Bees\n\n## Hives\nBees live in hives of wax.\nAnts live in the ground.\n"
    )
    (tmp_path / "a.txt").write_text("Ants\nShort one. Ants carry leaves into the nest.\n")
    (tmp_path / "c.py").write_text("nothing = 0\n")

    assert list_files(str(tmp_path)) == ["a.txt", "b.md"]
    assert read_file(str(tmp_path), "a.txt") == "Short one. Ants carry leaves into the nest."
    assert sentences(read_file(str(tmp_path), "a.txt")) == ["Ants carry leaves into the nest."]
    assert search_word(str(tmp_path), "ants") == [
        "a.txt: Ants carry leaves into the nest.",
        "b.md: Ants live in the ground.",
    ]
    with pytest.raises(NonRetryable, match=r"no \.txt or \.md files"):
        list_files(str(tmp_path / "nowhere"))


def questions() -> list[tuple[str, Schema]]:
    """Return one question of each kind, with all tools on offer."""
    files = list_files(str(TEXTS))
    work = Work(GOAL, files, quotes={name: ["It is deep."] for name in files[:TEXTS_MIN]})
    text = read_file(str(TEXTS), files[0])
    offered = sentences(text)
    return [next_move(work), quote(GOAL, text, offered, 2), conclusion(offered[:3])]


def check_answers(model: Model) -> None:
    for prompt, schema in questions():
        answer = model.answer(prompt, schema)
        jsonschema.validate(answer.data, schema)
        assert answer.input_tokens > 20
        assert answer.output_tokens > 0


def test_scripted_model_answers_within_the_schemas() -> None:
    check_answers(ScriptedModel(pace_seconds=0))


def test_model_on_this_machine_answers_within_the_schemas() -> None:
    try:
        path = weights()
    except NoModel as error:
        pytest.skip(f"{error}: `make demo-agent` fetches it")

    check_answers(LocalModel(path))


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ModuleNotFoundError("No module named 'xllamacpp'"), "^no other is installed$"),
        (
            ImportError("libgomp.so.1: cannot open shared object file"),
            r"^llama\.cpp can't be loaded: libgomp.* \(on Debian and Ubuntu: apt-get install libgomp1\)$",
        ),
    ],
)
def test_model_that_cannot_run_here_says_what_is_missing(
    error: ImportError, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str) -> None:
        assert name == "xllamacpp"
        raise error

    monkeypatch.setattr("importlib.import_module", fail)

    with pytest.raises(NoModel, match=reason):
        weights()


def test_tools_are_on_offer_only_while_they_lead_somewhere() -> None:
    def tools(work: Work) -> list[str]:
        _, schema = next_move(work)
        return [move["properties"]["tool"]["const"] for move in schema["anyOf"]]

    files = [f"{n}.txt" for n in range(TEXTS_MIN + 1)]

    assert tools(Work(GOAL, files)) == ["search_word", "read_file"]
    assert tools(Work(GOAL, files, searched=True)) == ["read_file"]
    read = {name: ["It is deep."] for name in files[:TEXTS_MIN]}
    assert tools(Work(GOAL, files, quotes=read, searched=True)) == ["read_file", "finish"]
