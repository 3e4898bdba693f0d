"""Commands for the questions that runs ask people."""

from __future__ import annotations

import json as json_lib
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.text import Text

from stepwell.cli import connect, options
from stepwell.cli.arguments import read
from stepwell.cli.commands.control import steer
from stepwell.cli.completion import complete_run
from stepwell.cli.connect import connected
from stepwell.cli.exits import CliError, Exit
from stepwell.cli.view import describe
from stepwell.cli.view.terminal import put_json, put_rows, table
from stepwell.cli.view.text import ago, micros, note, one_line, short_id, span, span_us
from stepwell.runtime import SystemRuntime
from stepwell_client import Payload, Question, QuestionKind, SyncClient, SyncRunHandle
from stepwell_client.enums import QuestionStatus
from stepwell_client.internal import CommandOptions

EXAMPLES = {
    "questions": "stepwell questions",
    "answer": "stepwell answer 3f2a9c1e --yes --reason 'looks right'",
}
_YES = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}


@connected
def questions(
    client: SyncClient,
    run: Annotated[
        str,
        typer.Argument(
            help="The run's id, or its beginning; without one, of all runs.",
            show_default=False,
            autocompletion=complete_run,
        ),
    ] = "",
    limit: Annotated[
        int,
        typer.Option("--limit", "-n", metavar="N", min=1, max=100_000, help="No more than this."),
    ] = 100,
    json: options.Json = False,
) -> int:
    """List what runs ask of people, oldest first.

    Of all runs, what waits for an answer; of one run, also what was answered.
    """
    run_id = connect.run_id(client, run) if run else None
    asked = client.run(run_id).questions() if run_id else client.questions()
    questions = list(islice(asked, limit + 1))
    more = len(questions) > limit
    if json:
        put_json({"questions": questions[:limit], "more": more})
    elif questions:
        _print(questions[:limit], whole=bool(run))
        if more:
            note(f"… and younger ones: --limit {limit * 10}")
        elif not run:
            note("answer one: stepwell answer RUN QUESTION VALUE")
    else:
        note("this run has asked nothing" if run else "no run waits for an answer")
    return Exit.DONE


def _print(questions: list[Question], *, whole: bool) -> None:
    now_us = SystemRuntime().now_us()
    names = connect.short([one.run_id for one in questions])
    status_title = ["STATUS"] if whole else []
    rows = table(["RUN", "ID", "KIND", *status_title, "ASKED", "EXPIRES"])
    # Where there is too little room, only a column that may wrap becomes narrower.
    rows.add_column("QUESTION")
    for one in questions:
        status = [one.status.name.lower()] if whole else []
        rows.add_row(
            names[one.run_id],
            Text(one_line(one.id, 80)),
            one.kind.name,
            *status,
            ago(now_us - micros(one.created_time)),
            _expiry(one, now_us),
            Text(_prompt(one), no_wrap=True, overflow="ellipsis"),
        )
    put_rows(rows, "KIND", "ASKED", "EXPIRES")


def _prompt(question: Question) -> str:
    choices = f"  ({' | '.join(question.choices)})" if question.choices else ""
    by = f"  (answered by {question.answered_by})" if question.answered_by else ""
    return one_line(question.prompt + choices + by)


def _expiry(question: Question, now_us: int) -> str:
    """Return the time until an open question expires, and the consequence."""
    expires = span_us(question.expires)
    if not expires or question.status != QuestionStatus.OPEN:
        return "-"
    left = micros(question.created_time) + expires - now_us
    when = f"in {span(left)}" if left > 0 else "is over"
    return f"{when}: {question.on_expiry.name}"


@connected
def answer(
    client: SyncClient,
    run: Annotated[
        str,
        typer.Argument(
            help="The run's id, or its beginning; with --token the answer.",
            show_default=False,
            autocompletion=complete_run,
        ),
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[QUESTION] [VALUE]",
            help="Which question, by its id or its task's, where the run asks more than one; and the"
            " answer: JSON, or else a text.",
            show_default=False,
        ),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json-file", metavar="FILE", help="The answer as JSON; - reads it here."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Approve.")] = False,
    no: Annotated[bool, typer.Option("--no", help="Don't approve.")] = False,
    choice: Annotated[
        str | None, typer.Option("--choice", metavar="X", help="One of the choices.")
    ] = None,
    replan: Annotated[
        bool, typer.Option("--replan", help="Have the run plan again before it goes on.")
    ] = False,
    token: Annotated[
        str,
        typer.Option(
            "--token",
            metavar="TOKEN",
            help="Answer the question of this token, which needs no credential.",
            show_default=False,
        ),
    ] = "",
    reason: options.Reason = "",
    on_behalf_of: options.For = "",
    json: options.Json = False,
) -> int:
    """Answer what a run asks.

    `stepwell questions` shows what is asked. With --replan the planner is shown the reason. Whoever has a
    question's token gives it and the answer alone: stepwell answer --token TOKEN JSON
    """
    flags = _Flags(json_file, yes=yes, no=no, choice=choice)
    if token:
        if flags != _Flags() or words or replan or reason or on_behalf_of:
            raise CliError("with --token goes the answer alone: JSON, or a text")
        changed = client.answer_by_token(token, _loaded(run))
        if json:
            put_json({"changed": changed})
        else:
            print("the question has its answer" if changed else "it had this answer already")
        return Exit.DONE
    said = CommandOptions(reason=reason, on_behalf_of=on_behalf_of)
    command = partial(_answer, said=said, positional=list(words or ()), flags=flags, replan=replan)
    return steer(client, run, command, json=json)


class _Flags(NamedTuple):
    """Options that are answers."""

    json_file: Path | None = None
    yes: bool = False
    no: bool = False
    choice: str | None = None


def _answer(
    run: SyncRunHandle, *, said: CommandOptions, positional: list[str], flags: _Flags, replan: bool
) -> str:
    """Answer a question of a run, and return a sentence about it."""
    json_file, yes, no, choice = flags
    given = [yes, no, choice is not None, json_file is not None]
    if sum(given) > 1:
        raise CliError("--yes, --no, --choice and --json-file are answers; give one")
    if len(positional) > 1 + (not any(given)):
        raise CliError("too many words: an answer of several words is one in quotes")
    name = short_id(run.id)
    asked = list(run.questions())
    text = None if any(given) or not positional else positional.pop()
    question = _chosen(asked, positional[0] if positional else "", name)
    if json_file is not None:
        value = _parsed(json_file)
    elif any(given):
        value = choice if choice is not None else yes
    elif text is None:
        raise CliError("what is the answer? Give a VALUE, --yes, --no, --choice or --json-file")
    else:
        value = _value(question, text)
    run.answer(question.id, value, replan=replan, **said)
    version = describe.pinned(run.get().worker_version)
    waits = f"; it goes on with a worker of {version}" if version else ""
    return (
        f"run {name} has its answer to {question.id}{'; it plans again' if replan else ''}{waits}"
    )


def _chosen(asked: list[Question], wanted: str, run: str) -> Question:
    """Return the question with this id or task id; without one, the only one that is open."""
    is_open = [one for one in asked if one.status == QuestionStatus.OPEN]
    if wanted:
        # Closed questions too, newest first: the service reports how they ended.
        for one in (*is_open, *reversed(asked)):
            if wanted in (one.id, one.task_id):
                return one
        raise CliError(f"run {run} has asked no {wanted!r}; see: stepwell questions {run}")
    if not is_open:
        raise CliError(f"run {run} waits for no answer; see: stepwell questions {run}")
    if len(is_open) > 1:
        names = ", ".join(one.task_id for one in is_open[:5])
        raise CliError(f"run {run} asks {len(is_open)} questions; name one of: {names}")
    return is_open[0]


def _value(question: Question, text: str) -> Any:
    """Return the value of a text as an answer to this question."""
    if question.kind == QuestionKind.CHOICE and text in question.choices:
        return text
    if question.kind == QuestionKind.APPROVAL and text.lower() in _YES:
        return _YES[text.lower()]
    return _loaded(text)


def _loaded(text: str) -> Any:
    try:
        return json_lib.loads(text)
    except ValueError:
        return text


def _parsed(path: Path) -> Payload:
    """Return the file's bytes as JSON; the service checks them."""
    return Payload(data=read(str(path)), media_type="application/json")
