"""Makes session operations of the OpenAI Agents SDK calls of a step."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast
from weakref import WeakKeyDictionary

from agents import OpenAIConversationsSession, Session, TResponseInputItem, UserError
from agents.memory import is_openai_responses_compaction_aware_session

from stepwell_client import Done, Effect, JournalEntry, NotDone, StepContext
from stepwell_client.internal import journaled_step
from stepwell_frameworks.home_loop import on_home_loop
from stepwell_frameworks.openai_agents.json_forms import jsonable
from stepwell_frameworks.openai_agents.thread_session import ThreadSession

Items = list[TResponseInputItem]


class StepwellSession:
    """A session of the SDK that is the same in each attempt at a step.

    The step's journal records the history at the step's first read, and each change by the step.
    The next attempt sees the same history, and changes nothing twice. Later steps see what others
    add meanwhile. After a crash during a change, the newest items tell whether it took place, which
    is wrong if others changed them in between. Outside of a step it is the original session.
    """

    def __init__(self, session: Session) -> None:
        if isinstance(session, OpenAIConversationsSession):
            raise UserError(
                "OpenAI keeps the history of an OpenAIConversationsSession: give the run its conversation_id"
            )
        if is_openai_responses_compaction_aware_session(session):
            raise UserError(
                f"session {session.session_id!r} compacts itself by requests that would not be kept: "
                "give the session that it is made of"
            )
        self.session_id = session.session_id
        self.session_settings = session.session_settings
        self._session = session
        self._items: WeakKeyDictionary[StepContext, Items] = WeakKeyDictionary()

    async def get_items(self, limit: int | None = None) -> Items:
        """Return the newest items, oldest first."""
        step = journaled_step()
        if step is None:
            return await self._session.get_items(limit)
        items = await self._read(step)
        return copy.deepcopy(items[-limit:] if limit else items if limit is None else [])

    async def add_items(self, items: Items) -> None:
        """Add to the history."""
        step = journaled_step()
        if step is None:
            await self._session.add_items(items)
            return
        held, added = await self._read(step), cast("Items", jsonable(items))

        async def was_added() -> bool:
            expected = [*held, *added]
            return await self._session.get_items(len(expected)) == expected

        add = partial(self._session.add_items, items)
        await self._change(step, "add_items", add, was_added, added)
        held.extend(copy.deepcopy(added))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the newest item, and return it."""
        step = journaled_step()
        if step is None:
            return await self._session.pop_item()
        held = await self._read(step)
        if not held:
            return None

        async def was_popped() -> bool:
            return await self._session.get_items(len(held)) != held

        await self._change(step, "pop_item", self._session.pop_item, was_popped, held[-1])
        return held.pop()

    async def clear_session(self) -> None:
        """Remove all items."""
        step = journaled_step()
        if step is None:
            await self._session.clear_session()
            return
        held = await self._read(step)

        async def was_cleared() -> bool:
            return not await self._session.get_items(1)

        await self._change(step, "clear_session", self._session.clear_session, was_cleared)
        held.clear()

    async def _read(self, step: StepContext) -> Items:
        """Return this attempt's history, read once."""
        held = self._items.get(step)
        if held is None:
            settings = self.session_settings
            limit = None if settings is None else settings.limit
            home = asyncio.get_running_loop()

            async def read(_: str) -> Items:
                return await on_home_loop(home, partial(self._session.get_items, limit))

            kept = await step.call("session.get_items", read, self.session_id, as_=list[Any])
            held = self._items.setdefault(step, cast("Items", kept))
        return held

    async def _change(
        self,
        step: StepContext,
        name: str,
        change: Callable[[], Awaitable[object]],
        was_changed: Callable[[], Awaitable[bool]],
        *arguments: object,
    ) -> None:
        """Change the session once; after a crash during the change, its history tells whether that took place."""
        home = asyncio.get_running_loop()

        async def run(*_: object) -> None:
            await on_home_loop(home, change)

        async def find_out(_: JournalEntry) -> Done | NotDone:
            return Done() if await on_home_loop(home, was_changed) else NotDone()

        await step.call(
            f"session.{name}",
            run,
            self.session_id,
            *arguments,
            effect=Effect.AT_MOST_ONCE,
            reconcile=find_out,
        )


_SESSIONS: WeakKeyDictionary[StepContext, dict[int, StepwellSession]] = WeakKeyDictionary()
"""The sessions that an attempt's runs were given, by identity: a session has one history in an attempt."""


def step_session(step: StepContext, session: Session) -> Session:
    """Return a session as the step's runs use it."""
    if isinstance(session, StepwellSession | ThreadSession):
        return session
    made = _SESSIONS.setdefault(step, {})
    return made.setdefault(id(session), StepwellSession(session))
