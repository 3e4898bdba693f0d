"""A session of the OpenAI Agents SDK that is kept in a thread."""

from __future__ import annotations

from typing import Any, cast

from agents import SessionSettings, TResponseInputItem, UserError

from stepwell_client import decode
from stepwell_client.internal import StepThread
from stepwell_frameworks.openai_agents.json_forms import jsonable

Items = list[TResponseInputItem]
_ROLES = frozenset({"user", "assistant", "system", "developer"})


class ThreadSession:
    """A session of the SDK whose items are messages of the thread that the step's run is in.

        session = ThreadSession(ctx.thread)
        await StepwellRunner.run(reader, ctx.goal, session=session)

    Added items are sent with the step's outcome, and lost with an attempt that fails. A message has
    an item as its content, and the item's role, or else its type, as its role. A text of the role
    user, assistant, system or developer is an item, too; other messages are no part of the history.
    Each attempt at the step gets the same history.
    """

    def __init__(self, thread: StepThread | None, *, last: int = 1_000) -> None:
        """Make a session of the newest messages of `ctx.thread`, 1 to 1,000 of them.

        Raises UserError if the run is in no thread.
        """
        if thread is None:
            raise UserError("the step's run is in no thread: start it with thread=…")
        self.session_id = thread.id
        self.session_settings: SessionSettings | None = SessionSettings(limit=last)
        self._thread = thread
        self._last = last
        self._before: Items | None = None

    async def get_items(self, limit: int | None = None) -> Items:
        """Return the newest items, oldest first, with those that the step has added.

        Raises ValueError if `last` is outside of its range, and what `ctx.call` raises.
        """
        if self._before is None:
            found = await self._thread.messages(self._last)
            self._before = [item for one in found if (item := _item(one.role, one.content))]
        added = [item for _, item in self._added()]
        items = cast("Items", jsonable([*self._before, *added]))  # A copy.
        return items[-limit:] if limit else items if limit is None else []

    async def add_items(self, items: Items) -> None:
        """Append items to the thread, by the step's outcome. Raises what `ctx.thread.append` raises."""
        for item in cast("list[dict[str, Any]]", jsonable(items)):
            self._thread.append(item.get("role") or item["type"], item)

    async def pop_item(self) -> TResponseInputItem | None:
        """Take back the newest item, and return it; None if there is none.

        Raises UserError if another step, or a caller, has appended it: a thread loses no message.
        """
        for number, item in reversed(self._added()):
            self._thread.take_back(number)
            return item
        if await self.get_items(1):
            raise UserError(f"{self._kept}: pop_item takes back what the step has added itself")
        return None

    async def clear_session(self) -> None:
        """Take back all items that the step has added. Raises UserError if the thread has others."""
        added = self._added()
        if len(await self.get_items()) > len(added):
            raise UserError(f"{self._kept}: clear_session can't remove them; use another thread")
        for number, _ in reversed(added):
            self._thread.take_back(number)

    @property
    def _kept(self) -> str:
        return f"thread {self.session_id!r} keeps its messages"

    def _added(self) -> list[tuple[int, TResponseInputItem]]:
        """Return the items that the step has appended, each with its number among what the step has appended."""
        return [
            (number, item)
            for number, one in enumerate(self._thread.appended())
            if (item := _item(one.role, decode(one.content)))
        ]


def _item(role: str, content: Any) -> TResponseInputItem | None:
    """Return a message as an item, or None if it is none."""
    if isinstance(content, str) and role in _ROLES:
        content = {"role": role, "content": content}
    is_item = isinstance(content, dict) and ("role" in content or "type" in content)
    return cast("TResponseInputItem", content) if is_item else None
