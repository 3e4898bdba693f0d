"""The program: its commands by name, imported on use, and its errors, in one line each."""

from __future__ import annotations

import errno
import gc
import importlib
import json
import os
import re
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from stepwell.cli.connection_options import CONNECTION
from stepwell.cli.exits import CliError, Exit
from stepwell.cli.signatures import adding

COMMANDS: dict[str, str] = {
    "up": "Run service, console and an agent's worker in one terminal.",
    "serve": "Run the service: workers and clients connect to it.",
    "store": "Offer a store to services on other machines.",
    "migrate": "Bring a store's schema up to this version.",
    "certs": "Make a private authority and certificates, to try TLS.",
    "worker": "Serve the steps of a Python agent.",
    "run": "Start a run and follow it.",
    "ls": "List runs, newest first.",
    "show": "Show a run, its tasks, the child runs below it and its result.",
    "watch": "Follow a run that is there.",
    "logs": "Print what a run's steps wrote.",
    "messages": "Print the conversations of a run's tasks.",
    "journal": "List what the calls within a run's steps recorded.",
    "resume": "Make a run go on from its last checkpoint, and follow it.",
    "pause": "Pause a run; work in flight may end.",
    "questions": "List what runs ask of people, oldest first.",
    "answer": "Answer what a run asks.",
    "stop": "End a run after the iteration in progress.",
    "signal": "Send a run a signal.",
    "signals": "List the signals that a run keeps, oldest first.",
    "threads": "List threads, newest first.",
    "thread": "Show a thread and its messages, follow, fork or delete it.",
    "cancel": "Cancel a run for good.",
    "resolve": "Tell the outcome of a task whose outcome is unknown.",
    "retry": "Run a task again that failed or was skipped.",
    "skip": "Skip a task, whatever it is doing.",
    "budget": "Show what a run has used of its budget, or raise its limits.",
    "fork": "Start a run from a version of another one, and follow it.",
    "checkpoints": "List a run's named checkpoints.",
    "plans": "List the revisions of a run's plan.",
    "diff": "Compare two runs: plans, results and cost, side by side.",
    "rm": "Remove runs that have ended.",
    "purge": "Remove runs that ended some time ago.",
    "workers": "List the workers that are connected, and what they hold.",
    "queues": "List queues: their limits, workers, and what waits.",
    "mcp": "Give an assistant tools for runs, by MCP.",
    "console": "Open the web console of a server.",
    "health": "Ask whether the service is ready.",
}
"""The commands with the first sentence of their docstrings."""

_MODULES: dict[str, tuple[str, ...]] = {
    "server": ("serve", "store", "migrate"),
    "start": ("run", "resume", "watch"),
    "control": ("pause", "cancel", "stop", "signal", "retry", "skip", "resolve", "rm", "purge"),
    "questions": ("questions", "answer"),
    "history": ("plans", "checkpoints"),
    "output": ("logs", "messages"),
    "threads": ("threads", "thread"),
    "connected": ("workers", "queues"),
}
"""The modules of `stepwell.cli.commands` with several commands; any other command has its own."""

_EPILOG = (
    "Exit codes: 0 done, or the run succeeded; 1 failed; 2 usage; 3 cancelled; 4 the run waits or is"
    " paused; 5 no server, or no token for it."
)


@contextmanager
def _collecting_no_garbage() -> Generator[None]:
    """Look for no garbage among what is made within, now or later.

    Modules last as long as the program. To look through them again and again takes a fifth of the time of their import.
    """
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


class _Commands(typer.core.TyperGroup):
    """Imports a command's module when the command is run, so that others cost nothing."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the shape is typer's
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - the shape is typer's
        if cmd_name not in COMMANDS:
            return None
        name = next((key for key, names in _MODULES.items() if cmd_name in names), cmd_name)
        with _collecting_no_garbage():
            module = importlib.import_module(f"stepwell.cli.commands.{name}")
        single = typer.Typer(rich_markup_mode=None, add_completion=False)
        epilog = f"Example: {module.EXAMPLES[cmd_name]}"
        single.command(cmd_name, epilog=epilog)(getattr(module, cmd_name))
        return typer.main.get_command(single)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - the shape is typer's
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


app = typer.Typer(
    name="stepwell",
    cls=_Commands,
    help="Durable agent loops: every transition is committed before anything acts on it.",
    epilog=_EPILOG,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 - costs every other command

        typer.echo(f"stepwell {version('stepwell')}")
        raise typer.Exit


def _options(context: typer.Context, _: bool, **given: Any) -> int:
    """Hold the options of the connection that stand before the command."""
    if any(given.values()):
        from stepwell.cli.connect import Connection  # noqa: PLC0415 - costs `--help` a lot

        context.obj = Connection.of(given)
    return Exit.DONE


_Version = Annotated[
    bool,
    typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
]
app.callback()(
    adding(
        _options,
        _options,
        3,
        first={"context": typer.Context},
        last={**CONNECTION, "_": _Version},
    )
)


def run(arguments: Sequence[str]) -> int:
    """Carry out a command; return its exit code."""
    try:
        code = app(list(arguments) or ["--help"], standalone_mode=False, prog_name="stepwell")
        sys.stdout.flush()
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # Who reads has read enough, such as `head`.
        _drop_output()
        return Exit.DONE
    except Exception as error:
        expected = _expected(error)
        if expected is None:
            raise
        message, code = expected
        if "--json" in arguments:
            print(_as_json(error, message, code), file=sys.stderr)
        else:
            print(f"error: {message}", file=sys.stderr)
        return code
    return int(code or 0)


def _expected(error: Exception) -> tuple[str, int] | None:
    """Return the message and exit code of an expected error, or None for a bug."""
    if isinstance(error, typer.Abort):
        return "interrupted", Exit.INTERRUPTED
    if isinstance(error, CliError):
        return error.message, error.code
    # The parser's errors: the vendored click's classes have no public names.
    formatted = getattr(error, "format_message", None)
    if formatted is None:
        return _unwritten(error)
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "stepwell"
    message = _plain(" ".join(str(formatted()).split()).rstrip("."))
    return f"{message}; see `{path} --help`", int(getattr(error, "exit_code", Exit.USAGE))


def _plain(message: str) -> str:
    """Return a message of the parser about a value as the option's name and what it must be."""
    found = re.fullmatch(r"Invalid value for '([^']+)'(?: / '[^']+')*: (.+)", message)
    if found is None:
        return message
    from stepwell.config import plain_fault  # noqa: PLC0415 - costs every other command

    return f"{found[1]}: {plain_fault(found[2])}"


def _as_json(error: Exception, message: str, code: int) -> str:
    """Return an error as a line of JSON; its reason is the server's, the client's, or the name of the exit code."""
    from stepwell_client import InvalidRequest, StepwellClientError  # noqa: PLC0415 - costs every other command

    cause = error.__cause__
    reason = cause.reason if isinstance(cause, StepwellClientError) else Exit(code).name
    shown: dict[str, Any] = {"reason": reason, "message": message, "exit_code": int(code)}
    if isinstance(cause, InvalidRequest):
        shown["violations"] = [
            {"field": one.field, "description": one.description} for one in cause.violations
        ]
    return json.dumps({"error": shown})


def _unwritten(error: Exception) -> tuple[str, int] | None:
    """Return the message for a file or an output that can't be written, or None for another error."""
    if not isinstance(error, OSError):
        return None
    if error.filename is not None and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{error.filename} can't be written: {error.strerror}", Exit.FAILED
    if error.filename is not None or error.errno not in (errno.ENOSPC, errno.EIO, errno.EDQUOT):
        return None
    _drop_output()
    return f"the output can't be written: {error.strerror}", Exit.FAILED


def _drop_output() -> None:
    """Send what is left of the output nowhere: else Python writes it at its end, and fails again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
