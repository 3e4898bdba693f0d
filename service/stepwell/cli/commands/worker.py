"""The command `stepwell worker`."""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from stepwell.cli import connect, options
from stepwell.cli.errors import exit_of_error, explain
from stepwell.cli.exits import CliError, Exit
from stepwell.cli.process import signals
from stepwell.cli.view.text import note
from stepwell.runtime import SystemRuntime
from stepwell_client import Agent, Client, StepwellClientError, Worker

EXAMPLES = {"worker": "stepwell worker examples.survey.agent:agent --queue survey"}


@connect.connecting
def worker(
    where: connect.Connection,
    agent: Annotated[
        str,
        typer.Argument(
            help="Where it is, as module:name; modules are looked for from here.",
            show_default=False,
        ),
    ],
    queue: options.Queues = None,
    role: Annotated[
        list[str] | None,
        typer.Option(
            "--role", metavar="NAME", help="A role to fill; may be given again, * is all."
        ),
    ] = None,
    version: Annotated[
        str,
        typer.Option(
            "--version",
            metavar="VERSION",
            help="The agent's version, as 1.4.2, for runs that ask for one.",
        ),
    ] = "",
    concurrency: options.Concurrency = 8,
    worker_id: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="ID",
            help="Who it is, also after a restart. Default: agent@host, agent@host-2 …",
        ),
    ] = None,
    drain: options.Drain = 30.0,
    end_with_input: Annotated[
        bool,
        typer.Option(
            "--end-with-input",
            help="Drain also when standard input ends, such as a pipe from the program that started it.",
        ),
    ] = False,
) -> int:
    """Serve the steps of a Python agent.

    SIGTERM or Ctrl-C drains: no step is begun, those under way may end. A second one quits at once.
    """
    loaded = load(agent)
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)-7s %(message)s"
    )
    try:
        return asyncio.run(
            _serve(
                *(loaded, where, queue or [], role, version, concurrency, worker_id, drain),
                end_with_input=end_with_input,
            )
        )
    except StepwellClientError as error:
        raise CliError(
            explain(error, where.target or "the server"), exit_of_error(error)
        ) from error


async def _serve(
    agent: Agent,
    connection: connect.Connection,
    queues: list[str],
    roles: list[str] | None,
    version: str,
    concurrency: int,
    worker_id: str | None,
    drain_seconds: float,
    *,
    end_with_input: bool,
) -> int:
    async with Client(
        connection.target, token_file=connection.token_file, **connection.security
    ) as client:
        made = Worker(
            agent,
            client,
            worker_id=worker_id,
            queues=queues,
            roles=roles,
            version=version,
            concurrency=concurrency,
        )
        where = client.connection.target
        steps = ", ".join(kind.name.lower() for kind in agent.kinds)
        note(
            f"agent {agent.name} does {steps} of queue {', '.join(queues or agent.queues) or 'default'}"
            f" at {where}; Ctrl-C drains"
        )
        runtime = SystemRuntime()
        with signals.stopping(with_input=end_with_input) as stop:
            running = runtime.spawn(made.run(), name="worker")
            stopped = runtime.spawn(stop.wait(), name="signals")
            await asyncio.wait((running, stopped), return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            if not running.done():
                note(f"draining, {drain_seconds:g} s at the most; Ctrl-C again quits at once")
                await made.drain(drain_seconds)
            try:
                await running
            except StepwellClientError as error:
                raise CliError(explain(error, where), exit_of_error(error)) from error
    return Exit.DONE


def load(place: str) -> Agent:
    """Return the agent at `module:name`; modules are looked for in the working directory first."""
    module_name, colon, name = place.partition(":")
    if not colon or not module_name or not name:
        raise CliError(f"{place!r} is no module:agent, such as my_agents.survey:agent")
    if module_name.endswith(".py"):
        proposed = module_name.removesuffix(".py").strip("./").replace("/", ".")
        raise CliError(f"{module_name} is a file; name its module: {proposed}:{name}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    module = _import(module_name)
    value = getattr(module, name, None)
    if isinstance(value, Agent):
        return value
    agents = [key for key, item in vars(module).items() if isinstance(item, Agent)]
    known = f"its agents: {', '.join(agents)}" if agents else "it has no agent: agent = Agent(…)"
    what = "has no" if value is None else "has no Agent"
    raise CliError(f"module {module_name} {what} {name!r}; {known}")


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing and (name == missing or name.startswith(f"{missing}.")):
            raise CliError(
                f"there is no module {missing!r} in {Path.cwd()} or among the installed ones"
            ) from None
        raise CliError(f"module {name} needs {missing!r}, which is not installed") from None
    except Exception as error:
        # The author needs the traceback of the module's own frames only.
        frames = traceback.TracebackException.from_exception(error)
        own = [frame for frame in frames.stack if "importlib" not in frame.filename][1:]
        shown = "".join(traceback.format_list(own))
        raise CliError(
            f"module {name} can't be imported: {type(error).__name__}: {error}\n{shown}".rstrip()
        ) from error
