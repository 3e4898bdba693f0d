"""Answers to a program's writes and claims, in a form that two stores must agree on."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from stepwell.core.port import Claimed, Commit, ReadyStep, Renewal, Store
from stepwell.core.records.errors import InvalidArgument
from tests.contract.differential.compare import Differs, Failed

T = TypeVar("T")


async def answered(answer: Awaitable[object]) -> object:
    """Return what was answered; an error is an answer too."""
    try:
        return await answer
    except Differs:
        raise
    except InvalidArgument:
        return Failed("InvalidArgument")
    except Exception as error:
        return Failed(type(error).__name__, str(error))


async def verdicts(store: Store, commits: list[Commit]) -> object:
    """Commit, and return what became of each."""
    return [result.verdict for result in await store.commit(commits)]


async def renewed(store: Store, beats: list[Renewal]) -> object:
    """Renew, and return whether each token was right."""
    return list(await store.renew(beats))


def claimed_of(claimed: Claimed) -> object:
    """Return what was claimed, in an order of ours; times and `next_due_ms` are not compared."""
    ready = [sorted((*step_of(one), one.version) for one in steps) for steps in claimed.ready]
    due = sorted(
        (one.tenant_id, one.run_id, one.kind, one.name, one.token, one.version)
        for one in claimed.due
    )
    return ready, due


def step_of(one: ReadyStep) -> tuple[str, str, str]:
    """Return the names of a ready step."""
    return one.tenant_id, one.run_id, one.execution_id


def widened(limit: int, places: list[T]) -> int:
    """Return the limit, or the next larger one that does not fall between equals."""
    while 0 < limit < len(places) and places[limit] == places[limit - 1]:
        limit += 1
    return limit
