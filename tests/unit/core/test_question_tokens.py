"""Questions with a token: their ids come from its hash, which no two open questions of a run share."""

from __future__ import annotations

import pytest

from stepwell.core.loop.occurrences import Failed, NeedsAnswer, Open, Suspended, SuspendedCall
from stepwell.core.records.model import Failure
from stepwell.core.records.states import OnFailure
from tests.unit.core.loop_world import AT_ONCE, YES, World, started, task

HASH = "0123456789abcdef" * 4
BY_TOKEN = NeedsAnswer(prompt="paid?", token_sha256=HASH)
ID = f"token:{HASH}"


def asked(world: World) -> dict[str, str]:
    return {one.call: one.question_id for one in world.state.questions.values()}


def test_a_question_with_a_token_is_named_for_its_hash() -> None:
    world = started(task("a"))
    world.suspend("task:a#1", link=BY_TOKEN, other=NeedsAnswer(prompt="sure?"))
    assert asked(world) == {"link": ID, "other": "question:task:a#1.2"}
    assert world.answer(ID).status == "ACCEPTED"
    assert world.ready() == ["task:a#2"]


def test_the_next_attempt_asks_the_same_question() -> None:
    world = started(task("a"))
    world.suspend("task:a#1", link=BY_TOKEN, other=NeedsAnswer(prompt="sure?"))
    world.answer("question:task:a#1.2")
    world.suspend("task:a#2", link=BY_TOKEN)
    assert asked(world) == {"link": ID}


def test_a_question_that_its_step_ended_is_open_again_when_the_step_asks_again() -> None:
    world = started(task("a", retry=AT_ONCE))
    world.suspend("task:a#1", link=BY_TOKEN, other=NeedsAnswer(prompt="sure?"))
    world.answer("question:task:a#1.2")
    world.deliver("task:a#2", Failed(failure=Failure(kind="Boom")))
    world.suspend("task:a#3", link=BY_TOKEN)
    assert asked(world) == {"link": ID}
    assert world.answer(ID).status == "ACCEPTED"


@pytest.mark.parametrize(
    ("waits", "message"),
    [
        ({"x": BY_TOKEN, "y": BY_TOKEN}, "has the same token"),
        ({"x": NeedsAnswer(prompt="?", token_sha256=HASH.upper())}, "no SHA-256"),
        ({"x": NeedsAnswer(prompt="?", token_sha256="0" * 63)}, "no SHA-256"),
    ],
)
def test_a_step_with_an_unusable_token_fails(waits: dict[str, NeedsAnswer], message: str) -> None:
    world = started(task("a", retry=AT_ONCE))
    calls = tuple(SuspendedCall(call=call, wait=wait) for call, wait in waits.items())
    reply = world.deliver("task:a#1", Suspended(waits=calls))
    assert (reply.status, reply.reason) == ("REJECTED", "INVALID_OUTCOME")
    assert message in reply.message
    assert world.state.questions == {}


def test_another_tasks_token_is_refused_while_its_question_is_open() -> None:
    world = started(task("a"), task("b", retry=AT_ONCE, on_failure=OnFailure.CONTINUE))
    world.suspend("task:a#1", link=BY_TOKEN)
    reply = world.deliver("task:b#1", Suspended(waits=(SuspendedCall(call="link", wait=BY_TOKEN),)))
    assert "has the same token" in reply.message
    assert asked(world) == {"link": ID}


def test_a_call_that_asked_without_a_token_gets_none_later() -> None:
    world = started(task("a", retry=AT_ONCE))
    world.suspend("task:a#1", link=NeedsAnswer(prompt="paid?"), other=NeedsAnswer(prompt="sure?"))
    world.answer("question:task:a#1.2", payload=YES)
    reply = world.deliver("task:a#2", Suspended(waits=(SuspendedCall(call="link", wait=BY_TOKEN),)))
    assert "has asked with another token, or without one" in reply.message


def test_a_running_steps_question_with_anothers_token_is_not_opened() -> None:
    world = started(task("a"), task("b"))
    world.suspend("task:a#1", link=BY_TOKEN)
    token = world.lease("task:b#1")
    call = SuspendedCall(call="link", wait=BY_TOKEN)
    opening = Open(execution_id="task:b#1", token=token, number=1, calls=(call,))
    reply = world.do(opening)[0]
    assert "has the same token" in reply.message
    assert asked(world) == {"link": ID}
    assert world.status_of("task:b#1") == "LEASED"
