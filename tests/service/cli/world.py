"""Helpers of the command line's tests: a real server, a real worker, and a terminal."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch
from urllib.request import Request, urlopen

from stepwell.cli import app
from tests.support.logs import loggers_restored

WAIT_S = 30.0
LIVES_S = 90.0
"""The life of a process in the background: a test that waits for its output sees the end."""
SESSION_S = 1_800.0
"""The life of the processes that all tests share."""
AGENT = """
    import asyncio
    from stepwell_client import Agent, Budget, Continue, Finish, QuestionKind, NeedsAnswer, NonRetryable, Task

    agent = Agent("cli")
    other = object()

    @agent.plan(input_schema={"type": "object", "title": "What to do"})
    def plan(ctx):
        if ctx.reason == "another way":
            return [Task("after", "question", input={"kind": "APPROVAL"})]
        return [Task(name, "echo", input=name) for name in ("a", "b")]

    @agent.task("echo")
    def echo(ctx, value):
        return value

    @agent.task("sum")
    def add(ctx):
        return sum(ctx.results.values())

    @agent.task("fail")
    def fail(ctx):
        ctx.transcript(prompt="why?", response="because")
        ctx.usage(input_tokens=5, model="small")
        ctx.usage(output_tokens=7, model="large")
        ctx.usage(model="small")
        raise RuntimeError("it is\\nbroken \\x1b[31m")

    @agent.task("ask")
    def ask(ctx):
        raise NeedsAnswer("may I?")

    @agent.task("question")
    def question(ctx):
        if ctx.answered is None:
            given = ctx.input() or {}
            kind = QuestionKind[given.pop("kind", "VALUE")]
            raise NeedsAnswer(f"what of {ctx.task_id}?", kind=kind, **given)
        return ctx.answer()

    @agent.task("call")
    async def call(ctx):
        value = await ctx.call("read", str.upper, "page")
        return value + await ctx.call("read", str.upper, "book", key="book")

    @agent.task("family")
    async def family(ctx, goals):
        def plan(goal):
            return [Task("kid", "receive") if goal == "note" else Task("kid", "family", input=[])]
        share = Budget(input_tokens=10)
        started = [await ctx.start_child(goal, plan=plan(goal), budget=share) for goal in goals]
        return [await child.result() for child in started]

    @agent.task("receive")
    async def receive(ctx):
        return await ctx.receive("note")

    @agent.task("slow")
    async def slow(ctx):
        await asyncio.sleep(60)

    @agent.task("talk")
    async def talk(ctx):
        ctx.session("cli", "s-1")
        ctx.append("user", "hello\\nthere")
        ctx.append("assistant", "hi")
        ctx.log("begins")
        ctx.log("odd \\x1b[31mred", level="WARNING")
        return "done"

    @agent.task("break")
    async def broken(ctx):
        ctx.stream("half ")
        ctx.stream("an answer")
        ctx.log("breaks")
        raise NonRetryable("no")

    @agent.reflect
    def reflect(ctx):
        if ctx.iteration == 1 and ctx.goal == "twice":
            return Continue([Task("c", "echo", input="c", title="once more")])
        return Finish("enough")

    @agent.synthesize
    def report(ctx):
        if ctx.goal == "bytes":
            return bytes([0, 255])
        return f"# Report\\n\\n{ctx.goal}: {', '.join(sorted(ctx.results))}"
"""
SETTINGS = """
    [budgets.default]
    input_tokens = 1000
    wall_ms = 3600000
"""


class Answer(NamedTuple):
    """Output of a command, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def run_id(self) -> str:
        """Id of the run that was followed with `--json`."""
        return self.json_lines[-1]["run"]["spec"]["run_id"]


class Row(NamedTuple):
    """A command line, and what it must come to: its exit code, and texts that it says.

    `{run}` stands for a run's id, `{short}` for its beginning. A text that ends its line is all that is said.
    """

    line: str
    code: int
    out: str = ""
    err: str = ""


class Terminal:
    """Runs commands as a user of the command line does, in a folder of its own."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder = folder
        self.lives_s = LIVES_S
        self.variables = {
            **{key: value for key, value in os.environ.items() if "STEPWELL" not in key},
            "XDG_STATE_HOME": str(folder / "state"),
            "PYTHONDONTWRITEBYTECODE": "1",
            **variables,
        }

    def __call__(self, *arguments: str, stdin: str = "", **variables: str) -> Answer:
        """Run a command in this process, which is a hundred times faster than in another."""
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
        given = io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8")
        with (
            contextlib.chdir(self.folder),
            patch.dict(os.environ, {**self.variables, **variables}, clear=True),
            patch.object(sys, "path", [*sys.path]),
            patch.object(sys, "stdin", given),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            loggers_restored(),
        ):
            code = app.run(arguments)
            out.flush()
            err.flush()
            said = [stream.buffer.getvalue() for stream in (out, err)]
        return Answer(code, said[0].decode("utf-8", "surrogateescape"), said[1].decode())

    def plays(self, run_id: str, *rows: Row) -> None:
        """Run the rows one after the other, about this run."""
        for row in rows:
            line, out, err = (
                text.replace("{run}", run_id).replace("{short}", run_id[:8])
                for text in (row.line, row.out, row.err)
            )
            answer = self(*shlex.split(line))
            assert answer.code == row.code, (line, answer)
            assert answer.out == out if out.endswith("\n") else out in answer.out, (line, answer)
            assert err in answer.err, (line, answer)
            assert "Traceback" not in answer.err, (line, answer)

    def apart(self, *arguments: str, **variables: str) -> Answer:
        """Run a command in a process of its own."""
        process = self.spawn(*arguments, **variables)
        out, err = process.communicate(timeout=WAIT_S)
        return Answer(process.returncode, out, err)

    def spawn(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """Run a command in the background. It doesn't outlive its test by much, whatever happens."""
        process = subprocess.Popen(
            [sys.executable, "-m", "stepwell", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env={**self.variables, **variables},
        )
        last = threading.Timer(self.lives_s, process.kill)
        last.daemon = True
        last.start()
        return process


def read_until(stream: Any, pattern: str) -> re.Match[str]:
    """Read lines until one matches; a process that never says it is killed in the end."""
    seen: list[str] = []
    while line := stream.readline():
        seen.append(line)
        if found := re.search(pattern, line):
            return found
    raise AssertionError(f"{pattern!r} never came: {''.join(seen)}")


def end(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> Answer:
    """Send a signal and return what was still said."""
    process.send_signal(number)
    out, err = process.communicate(timeout=WAIT_S)
    return Answer(process.returncode, out, err)


def post(url: str, path: str, key: str = "", **body: Any) -> Any:
    """Return the JSON with which the console's port answers a request."""
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    with urlopen(Request(f"{url}{path}", json.dumps(body).encode(), headers)) as answer:
        return json.load(answer)


@contextmanager
def serving(terminal: Terminal, *arguments: str, store: str = "") -> Iterator[str]:
    """Run a server; yields where it listens."""
    url = store or f"sqlite:///{terminal.folder}/runs.db"
    server = terminal.spawn("serve", "--port", "0", "--store", url, *arguments)
    try:
        yield read_until(server.stdout, r"listens on (\S+)")[1]
    finally:
        end(server)


@contextmanager
def working(terminal: Terminal, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a worker of the test's agent; yields when a server has welcomed it."""
    (terminal.folder / "cli_agent.py").write_text(textwrap.dedent(AGENT))
    worker = terminal.spawn("worker", "cli_agent:agent", *arguments)
    try:
        read_until(worker.stderr, "serves replica")
        yield worker
    finally:
        if worker.poll() is None:
            end(worker)


def plan_file(folder: Path, tasks: Sequence[Mapping[str, Any]], name: str = "plan.json") -> str:
    """Write a plan; returns the name of its file."""
    (folder / name).write_text(json.dumps({"tasks": list(tasks)}))
    return name


def start(terminal: Terminal, *tasks: Mapping[str, Any], queue: str = "nobody") -> str:
    """Start a run of these tasks that nobody serves, unless a queue is named; returns its id."""
    plan = plan_file(terminal.folder, tasks)
    answer = terminal("run", "--detach", "-q", queue, "--plan", plan)
    assert answer.code == 0, answer.err
    return answer.out.strip()
