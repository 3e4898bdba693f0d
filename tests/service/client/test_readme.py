"""The README's examples do what it says."""

from __future__ import annotations

import asyncio
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwell_client import decode, encode
from stepwell_client.execution import AgentRunner
from stepwell_client.v1 import orchestrator_pb2, types_pb2, worker_pb2
from tests.service.client.fakes import FakeServer, a_run
from tests.support.steps import FakeServices, assignment

README = Path(__file__).resolve().parents[3] / "clients" / "python" / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def agent_module() -> Iterator[types.ModuleType]:
    module = types.ModuleType("readme_agent")
    sys.modules[module.__name__] = module
    exec(compile(BLOCKS[0], "README.md", "exec"), module.__dict__)
    yield module
    del sys.modules[module.__name__]


async def test_readme_agent_counts_words(agent_module: types.ModuleType) -> None:
    runner, services = AgentRunner(agent_module.agent), FakeServices()
    given = ["to be or not", "to be"]

    planned = await runner.run(assignment(kind=types_pb2.STEP_KIND_PLAN, run_input=given), services)
    results = []
    for task in planned.planned.plan.tasks:
        done = await runner.run(assignment(type_=task.type, given=decode(task.input)), services)
        results.append(
            worker_pb2.DependencyResult(task_id=task.task_id, payload=done.completed.result)
        )
    total = await runner.run(
        assignment(kind=types_pb2.STEP_KIND_SYNTHESIZE, results=results), services
    )
    runner.close()

    assert decode(total.completed.result) == {"words": 6}


async def test_its_client_prints_the_result(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STEPWELL_TARGET", server.target)
    monkeypatch.setenv("STEPWELL_TOKEN", "a-token")
    run = a_run(types_pb2.RUN_STATUS_SUCCEEDED)
    result = orchestrator_pb2.Result(payload=encode({"words": 6}))
    answers: dict[str, Any] = {
        "StartRunRequest": orchestrator_pb2.StartRunResponse(run=run, created=True),
        "WaitRunRequest": orchestrator_pb2.WaitRunResponse(run=run, ended=True),
        "GetResultsRequest": orchestrator_pb2.GetResultsResponse(run_result=result),
    }
    for name, answer in answers.items():
        server.runs.answers[name] = lambda request, answer=answer: answer

    await asyncio.to_thread(exec, compile(BLOCKS[1], "README.md", "exec"), {})

    assert "It prints `" + capsys.readouterr().out.strip() + "`." in README.read_text()
