"""An environment that has only what the README's install line brings: no extra, no test kit, no tools.

Nothing is fetched: the wheels are built here, and what they require, as they declare it, is linked from this
environment, with what that requires in turn.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path
from urllib.request import urlopen

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.docs.pages import TOP
from tests.docs.shell import Shell, stop
from tests.support.patience import PATIENCE_S

TASKS = 1_100
AGENT = """
from stepwell_client import Agent, TaskContext

agent = Agent("plain")


@agent.task("square")
def square(ctx: TaskContext, number: int) -> int:
    return number * number
"""
PROJECTS = (TOP, TOP / "clients" / "python")
OURS = {"stepwell", "stepwell-client"}
LEFT_OUT = ("asyncpg", "redis", "cryptography", "mcp", "uvloop", "pytest", "stepwell_testkit")
"""Packages of extras and tools that this environment has: the other one must not find them."""


def required() -> dict[str, Distribution]:
    """Return what the two distributions require without extras, and so on down."""
    found: dict[str, Distribution] = {}
    names = list(OURS)
    while names:
        name = names.pop()
        if name in found:
            continue
        found[name] = distribution(name)
        wanted = map(Requirement, found[name].requires or ())
        names += [
            canonicalize_name(one.name)
            for one in wanted
            if one.marker is None or one.marker.evaluate({"extra": ""})
        ]
    return {name: one for name, one in found.items() if name not in OURS}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the environment's programs."""
    folder = tmp_path_factory.mktemp("plain")
    wheels = folder / "wheels"
    for project in PROJECTS:
        build = (*("hatchling", "build", "-t", "wheel"), "-d", str(wheels))
        subprocess.run([sys.executable, "-m", *build], cwd=project, check=True, capture_output=True)
    venv.create(folder / "env", with_pip=False, symlinks=True)
    programs = folder / "env" / "bin"
    install = ("pip", "--python", str(programs / "python"), "install", "--no-deps", "--no-index")
    subprocess.run(
        [sys.executable, "-m", *install, *map(str, wheels.glob("*.whl"))],
        check=True,
        capture_output=True,
    )
    (site,) = (folder / "env" / "lib").glob("python3*/site-packages")
    for one in required().values():
        link(one, site)
    return programs


def link(one: Distribution, site: Path) -> None:
    """Link a distribution's files; those of one folder may come from several, as those of `google` do."""
    for file in one.files or ():
        place = site / file
        if ".." in file.parts or "__pycache__" in file.parts or place.exists():
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(os.path.realpath(str(one.locate_file(file))))


@pytest.fixture
def shell(tmp_path: Path, programs: Path) -> Iterator[Shell]:
    (tmp_path / "agent.py").write_text(AGENT, encoding="utf-8")
    plan = [{"id": f"t{n}", "type": "square", "input": n} for n in range(TASKS)]
    (tmp_path / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    with Shell(tmp_path) as made:
        made.environment["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
        yield made


def test_environment_has_no_package_of_an_extra(shell: Shell) -> None:
    for name in LEFT_OUT:
        answer = shell.run(f"python -c 'import {name}'")
        assert f"No module named '{name}'" in answer.stderr


def test_plan_of_1100_tasks_runs_on_sqlite_and_the_console_answers(shell: Shell) -> None:
    server = shell.serve("stepwell serve --store sqlite:///runs.db")
    worker = shell.start("stepwell worker agent:agent --queue plain")
    run = shell.run("stepwell run --queue plain --plan plan.json --json")
    assert run.returncode == 0, run.stderr
    shown = json.loads(shell.run("stepwell ls --json").stdout)["runs"]
    assert [one["status"] for one in shown] == ["RUN_STATUS_SUCCEEDED"]
    assert [one["counts"]["completed"] for one in shown] == [TASKS]

    console = shell.start("stepwell console --port 0 --no-open")
    shell.until(lambda: "#code=" in shell.said(console), console)
    address = re.search(r"is at (http://127\.0\.0\.1:\d+)", shell.said(console))
    assert address is not None
    with urlopen(address[1], timeout=PATIENCE_S) as answer:
        page = answer.read().decode()
    script = re.search(r'src="\./(assets/main-[^"]+\.js)"', page)
    assert script is not None
    with urlopen(f"{address[1]}/{script[1]}", timeout=PATIENCE_S) as answer:
        assert answer.status == 200

    for process in (console, worker, server):
        stop(process, signal.SIGINT)
        assert "Traceback" not in shell.said(process)
