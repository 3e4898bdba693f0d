"""The chat's page as the demo uses it: in a headless Chromium, or played by HTTP and server-sent events."""

from __future__ import annotations

import asyncio
import json
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx

from examples.demo.processes import DemoFailed

RETRY_SECONDS = 0.2
Bubble = tuple[str, str]
"""A thing on the page: `user`, `assistant`, `question` or `state`, and its text."""


def with_tokens(text: str, lines: str) -> str:
    """Return a text with tokens, each at its place: what stood from there on is replaced."""
    for line in lines.splitlines():
        token = json.loads(line)
        text = text[: token["at"]] + token["text"]
    return text


class Page(ABC):
    """The page of one chat."""

    def __init__(self, errors: list[str]) -> None:
        """Prepare a page. `errors` is the list that exceptions of its script are added to."""
        self.errors = errors

    @abstractmethod
    async def shown(self) -> list[Bubble]:
        """Return what the page shows, from top to bottom."""

    @abstractmethod
    async def send(self, text: str, on_busy: str = "enqueue") -> None:
        """Type a message, and send it; return when it has been taken."""

    @abstractmethod
    async def agree(self) -> None:
        """Answer the question on the page with yes."""

    @abstractmethod
    async def reload(self) -> None:
        """Load the page again: it forgets all that it shows."""

    @abstractmethod
    async def close(self) -> None:
        """Leave the page."""


class HttpPage(Page):
    """A page without a browser: it does with the same streams what the script of `page.html` does."""

    def __init__(self, base: str, errors: list[str]) -> None:
        super().__init__(errors)
        self._http = httpx.AsyncClient(base_url=base, timeout=None)
        self._chat = str(uuid.uuid4())
        self._open()

    def _open(self) -> None:
        self._turns: dict[str, dict[str, Any]] = {}
        self._messages: dict[str, dict[int, Bubble]] = {}
        self._answering = ""
        self._tokens: asyncio.Task[None] | None = None
        self._changes = asyncio.create_task(
            self._follow(f"/chats/{self._chat}/turns", self._take_news)
        )

    async def _follow(self, path: str, take: Callable[[str], None]) -> None:
        """Take the events of a stream, over as many connections as needed."""
        last = ""
        while True:
            try:
                async for event_id, data in self._events(path, last):
                    last = event_id or last
                    take(data)
            except httpx.HTTPError:
                pass
            except Exception as error:  # noqa: BLE001 - as in a browser, it is an error of the page
                self.errors.append(repr(error))
            await asyncio.sleep(RETRY_SECONDS)

    async def _events(self, path: str, last: str) -> AsyncIterator[tuple[str, str]]:
        headers = {"Last-Event-ID": last} if last else {}
        async with self._http.stream("GET", path, headers=headers) as response:
            response.raise_for_status()
            event_id, data = "", list[str]()
            async for line in response.aiter_lines():
                name, _, text = line.partition(": ")
                if name == "id":
                    event_id = text
                elif name == "data":
                    data.append(text)
                elif not line and data:
                    yield event_id, "\n".join(data)
                    event_id, data = "", []

    def _take_news(self, data: str) -> None:
        news = json.loads(data)
        for one in news.get("messages", ()):
            self._messages.setdefault(one["run"], {})[one["number"]] = one["role"], one["text"]
        if "run" in news:
            self._take_turn(news)

    def _take_turn(self, turn: dict[str, Any]) -> None:
        before = self._turns.get(turn["run"], {})
        self._turns[turn["run"]] = {"answer": before.get("answer", ""), **turn}
        open_runs = [one["run"] for one in self._in_order() if self._is_under_way(one)]
        answering = open_runs[0] if open_runs else ""
        if answering != self._answering:
            if self._tokens is not None:
                self._tokens.cancel()
            self._answering = answering
            if answering:
                path = f"/runs/{answering}/tokens"
                self._tokens = asyncio.create_task(self._follow(path, self._take_tokens))

    def _is_under_way(self, turn: dict[str, Any]) -> bool:
        return not turn.get("over") and turn["status"] != "QUEUED"

    def _take_tokens(self, data: str) -> None:
        turn = self._turns[self._answering]
        turn["answer"] = with_tokens(turn["answer"], data)

    def _in_order(self) -> list[dict[str, Any]]:
        return sorted(self._turns.values(), key=lambda turn: turn["time"])

    async def shown(self) -> list[Bubble]:
        found: list[Bubble] = []
        for turn in self._in_order():
            if messages := self._messages.get(turn["run"]):
                found += messages.values()
                continue
            found.append(("user", turn["said"]))
            if turn["answer"]:
                found.append(("assistant", turn["answer"]))
            found += [("question", asked["prompt"]) for asked in turn.get("questions", ())]
            found += [("user", added) for added in turn.get("added", ())]
            if turn["status"] == "QUEUED":
                found.append(("state", "waits for its turn"))
        return found

    async def send(self, text: str, on_busy: str = "enqueue") -> None:
        said = {"goal": text, "on_busy": on_busy, "request_id": str(uuid.uuid4())}
        await self._post(f"/chats/{self._chat}", said)

    async def agree(self) -> None:
        asking = next(turn for turn in self._turns.values() if turn.get("questions"))
        answer = {"question": asking["questions"][0]["id"], "agreed": True}
        await self._post(f"/runs/{asking['run']}/answers", answer)

    async def _post(self, path: str, body: object) -> None:
        while True:
            try:
                response = await self._http.post(path, json=body)
            except httpx.TransportError:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if response.is_error:
                raise DemoFailed(f"{path} was refused: {response.text}")
            return

    async def reload(self) -> None:
        await self._leave()
        self._open()

    async def _leave(self) -> None:
        tasks = [task for task in (self._changes, self._tokens) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        await self._leave()
        await self._http.aclose()
