"""A question's token outlives the server and the worker that made it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stepwell_client import FailedPrecondition, RunStatus, Task
from tests.chaos.world.processes import Place
from tests.support.patience import until

AGENT = "tests.chaos.world.linking_agent:agent"


@pytest.fixture
async def place(backends: None, tmp_path: Path) -> AsyncIterator[Place]:
    place = Place(tmp_path)
    try:
        await place.start_server()
        yield place
    except BaseException:
        print(place.log("server"))
        raise
    finally:
        place.close()


@pytest.mark.parametrize("is_worker_killed", [False, True])
async def test_token_answers_after_the_server_was_killed(
    place: Place, is_worker_killed: bool
) -> None:
    sent = place.folder / "gates" / "sent"
    async with place.client() as client:
        place.start_worker(AGENT)
        run = await client.start("pay", plan=[Task("a", "pay")])

        async def is_asked() -> bool:
            return sent.exists() and (await run.get()).status == RunStatus.WAITING

        await until(is_asked)
        if is_worker_killed:
            place.kill_worker()
        place.kill_server()
        await place.start_server()

        (token,) = sent.read_text().split()
        await client.answer_by_token(token, 5)
        place.kill_server()
        await place.start_server()
        assert await client.answer_by_token(token, 5) is False
        with pytest.raises(FailedPrecondition):
            await client.answer_by_token(token, 6)
        if is_worker_killed:
            place.start_worker(AGENT)
        assert await run.result() == {"a": 5}
    # The attempt after the answer had the same token, and sent nothing again.
    assert sent.read_text().split() == [token]
    assert token not in place.log("server")
