"""`stepwell answer`."""

from __future__ import annotations

import json as json_lib
from pathlib import Path
from typing import Annotated, Any

import typer

from stepwell.cli import connect, options
from stepwell.cli.exits import CliError, Exit
from stepwell.cli.given import read
from stepwell.cli.terminal import put_json
from stepwell_client import InputKind
from stepwell_client.v1 import types_pb2

EXAMPLE = "Example: stepwell answer 3f2a9c1e --yes --reason 'looks right'"
_YES = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}


def command(
    context: typer.Context,
    run: options.RunId,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[INPUT] [VALUE]",
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
    reason: options.Reason = "",
    json: options.Json = False,
    target: options.Target = None,
    token_file: options.TokenFile = None,
) -> int:
    """Answer what a run asks.

    `stepwell inputs` shows what is asked. With --replan the planner is shown the reason.
    """
    given = [yes, no, choice is not None, json_file is not None]
    if sum(given) > 1:
        raise CliError("--yes, --no, --choice and --json-file are answers; give one")
    said = list(words or ())
    if len(said) > 1 + (not any(given)):
        raise CliError("too many words: an answer of several words is one in quotes")
    with connect.client(context, target, token_file) as made:
        run_id = connect.run_id(made, run)
        asked = [one.request for one in made.inputs(run_id)]
        text = None if any(given) or not said else said.pop()
        request = _request(asked, said[0] if said else "", connect.short([run_id])[run_id])
        if json_file is not None:
            value = _parsed(json_file)
        elif any(given):
            value = choice if choice is not None else yes
        elif text is None:
            raise CliError("what is the answer? Give a VALUE, --yes, --no, --choice or --json-file")
        else:
            value = _value(request, text)
        answer = made.answer(run_id, request.input_id, value, replan=replan, reason=reason)
    if json:
        put_json(answer)
    else:
        then = "; it plans again" if replan else ""
        print(f"run {connect.name_of(answer.run)} has its answer to {request.input_id}{then}")
    return Exit.DONE


def _request(asked: list[types_pb2.InputRequest], named: str, run: str) -> types_pb2.InputRequest:
    """Return the question that is meant: by its id, by its task's, or the only one that is open."""
    is_open = [one for one in asked if one.status == types_pb2.INPUT_STATUS_OPEN]
    if named:
        # Closed ones too, newest first: the service says what became of them.
        for one in (*is_open, *reversed(asked)):
            if named in (one.input_id, one.task_id):
                return one
        raise CliError(f"run {run} has asked no {named!r}; see: stepwell inputs {run}")
    if not is_open:
        raise CliError(f"run {run} waits for no answer; see: stepwell inputs {run}")
    if len(is_open) > 1:
        names = ", ".join(one.task_id for one in is_open[:5])
        raise CliError(f"run {run} asks {len(is_open)} questions; name one of: {names}")
    return is_open[0]


def _value(request: types_pb2.InputRequest, text: str) -> Any:
    """Return what a word means as an answer to this question."""
    if request.kind == InputKind.CHOICE and text in request.choices:
        return text
    if request.kind == InputKind.APPROVAL and text.lower() in _YES:
        return _YES[text.lower()]
    try:
        return json_lib.loads(text)
    except ValueError:
        return text


def _parsed(path: Path) -> types_pb2.Payload:
    """Return the file's bytes; what is wrong with them, the service says by path."""
    return types_pb2.Payload(data=read(str(path)), media_type="application/json")
