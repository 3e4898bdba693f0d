"""Questions that a step asks while its function goes on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any


class OpenQuestion:
    """A question that is open. Whoever has its token may answer it, once."""

    def __init__(
        self, token: str, answer: Callable[[], Awaitable[Any]], wait: Callable[[], Any]
    ) -> None:
        self.token = token
        """The question's token, which is the same in all attempts at the step. Give it to nobody but who may answer."""
        self._answer = answer
        self._wait = wait

    def __repr__(self) -> str:
        return "OpenQuestion()"  # Never shows the token.

    async def answer(self) -> Any:
        """Return the answer, decoded as the question's `as_`.

        The step is suspended once only waits are left of it, as in `ctx.ask`. Raises what that raises.
        """
        return await self._answer()

    def answer_sync(self) -> Any:
        """Return the answer, from a thread; see `answer`."""
        return self._wait()
