"""The program of `make demo-chat`: a talk in the chat's page, and a SIGKILL for each of its three programs in the middle of an answer.

    python -m examples.chat.demo [--by chromium|http]

The page is a headless Chromium's where there is one. In the end the page, the runs and the orders are compared: the exit
code is 1 when a message or an answer is missing or there twice, when an answer that was under way began again though its
worker lived, or when the order wasn't placed exactly once.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import datetime
from pathlib import Path

import httpx
from rich.console import Console

from examples.chat.chromium import ChromiumPage, find_chromium
from examples.chat.held import WORDS
from examples.chat.pages import Bubble, HttpPage, Page, with_tokens
from examples.demo.processes import DemoFailed, Program
from examples.demo.stage import DARK_SECONDS, TOP, main
from examples.demo.text import plain
from stepwell_client import Client, LogKind, Run, RunStatus, StepwellClientError
from stepwell_client.enums import JournalMark

LEASE_MS = 60_000
"""Longer than the server is away on any machine: a worker that lives keeps its step."""
WAIT_SECONDS_MAX = 120.0
DEMO_SECONDS_MAX = 600.0
SAID = ("hello", "what is a stepwell?", "tell me a story", "order three lamps")
GREETING, NEXT, WISH, ORDER = SAID
ADDED = "make it short"


class Demo:
    """One talk, and what is known of it."""

    def __init__(self, folder: Path, console: Console, chromium: str | None) -> None:
        """Prepare a talk. `chromium` is the browser's program; None: the page is played without one."""
        self.folder = folder
        self.console = console
        self.chromium = chromium
        self.hold = folder / "hold"
        self.orders = folder / "orders.txt"
        self.base = f"http://127.0.0.1:{free_port()}"
        self.token = folder / "token"
        target, token = f"unix:{folder}/socket", str(self.token)
        client = {"STEPWELL_TARGET": target, "STEPWELL_TOKEN_FILE": token}
        self._new_client = lambda: Client(target, token_file=token)
        self.server = Program(
            "server",
            ["serve", "--store", "sqlite:///chat.db"],
            folder=folder,
            log=folder / "server.log",
            settings={
                "STEPWELL_GRPC__SOCKET": str(folder / "socket"),
                "STEPWELL_AUTH__TOKEN_FILE": token,
                "STEPWELL_EXECUTOR__LEASE_MS": str(LEASE_MS),
            },
        )
        self.worker = Program(
            "worker",
            ["worker", "examples.chat.held:agent", "--id", "chat-worker", "--queue", "chat"],
            folder=TOP,
            log=folder / "worker.log",
            settings=client | {"CHAT_ORDERS": str(self.orders), "CHAT_HOLD": str(self.hold)},
        )
        self.app = Program(
            "web server",
            ["examples.chat.app:app", "--port", self.base.rpartition(":")[2]],
            folder=TOP,
            log=folder / "web.log",
            settings=client,
            module="uvicorn",
        )
        self.page_errors: list[str] = []
        self.broken: list[str] = []

    async def play(self) -> bool:
        """Play the talk; return whether all was as promised."""
        async with asyncio.timeout(DEMO_SECONDS_MAX), AsyncExitStack() as stack:
            for one in (self.server, self.worker, self.app):
                stack.push_async_callback(one.stop)
            await self.start(self.server)
            self.client = await stack.enter_async_context(self._new_client())
            await self.start(self.worker)
            await self.start(self.app)
            self.page = await self._open_page()
            stack.push_async_callback(self.page.close)
            await self._lose_the_server()
            await self._lose_the_web_server()
            await self._lose_the_worker()
            return await self._conclude()

    async def _open_page(self) -> Page:
        if self.chromium is None:
            self.log("without Chromium: the page is played by HTTP and server-sent events")
            return HttpPage(self.base, self.page_errors)
        page = ChromiumPage(self.page_errors)
        try:
            await page.open(self.chromium, f"{self.base}/")
        except BaseException:
            await page.close()
            raise
        self.log(f"the page is open in {self.chromium}")
        return page

    # The talk.

    async def _lose_the_server(self) -> None:
        """Two messages, the second while the first is answered; the server is killed meanwhile."""
        self.hold.touch()
        await self.page.send(GREETING)
        before = await self._half_an_answer(GREETING)
        await self.page.send(NEXT)
        await self.until("the second message waits", lambda: self._shows("state", "waits"))
        await self.kill(self.server)
        await self._go_on(GREETING, before)
        await self._answered(NEXT)

    async def _lose_the_web_server(self) -> None:
        """A message is added to one that is being answered; the web server is killed meanwhile."""
        self.hold.touch()
        await self.page.send(WISH)
        before = await self._half_an_answer(WISH)
        await self.page.send(ADDED, "steer")
        await self.until("the page shows what was added", lambda: self._shows("user", ADDED))
        await self.kill(self.app)
        await self._go_on(WISH, before)

    async def _lose_the_worker(self) -> None:
        """A tool asks, the page is loaded again, a person agrees; the worker is killed while it reports the order."""
        await self.page.send(ORDER)
        await self.until("the page asks", lambda: self._shows("question", "Order"))
        await self.page.reload()
        await self.until("the page asks again", lambda: self._shows("question", "Order"))
        before = await self._streamed(await self._run(ORDER))

        async def shows_again() -> bool:
            return await self._answer(ORDER) == before

        await self.until("the page shows the answer so far again", shows_again)
        self.log("the page asks whether it may order, also after a reload: yes")
        self.hold.touch()
        await self.page.agree()
        await self._half_an_answer(ORDER, before)
        await self.kill(self.worker)
        await self._go_on(ORDER, before)

    async def _answer(self, said: str) -> str:
        """Return the answer to a message as the page shows it; "" before it shows any."""
        shown = await self.page.shown()
        for index, (kind, text) in enumerate(shown[:-1]):
            if kind == "user" and text == said and shown[index + 1][0] == "assistant":
                return shown[index + 1][1]
        return ""

    async def _shows(self, kind: str, text: str) -> bool:
        return any(one == kind and text in words for one, words in await self.page.shown())

    async def _half_an_answer(self, said: str, before: str = "") -> str:
        """Wait until the model has stopped in the middle of its answer; return what the page shows of it."""
        words = len(before.split()) + WORDS

        async def is_half() -> bool:
            return len((await self._answer(said)).split()) == words

        await self.until(f"half an answer to “{said}”", is_half)
        return await self._answer(said)

    async def _go_on(self, said: str, before: str) -> None:
        """Let the model go on. The page must not lose anything of the answer up to `before`."""
        self.hold.unlink()
        await self._answered(said, before)

    async def _answered(self, said: str, before: str = "") -> None:
        """Wait until a message is answered; meanwhile the page must show `before` of the answer."""

        async def is_over() -> bool:
            if not (await self._answer(said)).startswith(before):
                self.broken.append(f"the page lost “{before}” of the answer to “{said}”")
            return (await self._run(said)).has_ended

        await self.until(f"an answer to “{said}”", is_over)
        self.log(f"“{said}” is answered")

    # The end.

    async def runs(self) -> list[Run]:
        """Return the turns of the talk, in order."""
        found = [one async for one in self.client.runs(pipeline="chat")]
        return found[::-1]

    async def _run(self, said: str) -> Run:
        return next(one for one in await self.runs() if one.goal == said)

    async def _conclude(self) -> bool:
        """Compare what the page shows after a reload with the runs and the orders, and print what survived."""
        runs = await self.runs()
        thread = self.client.thread(runs[0].thread_id)

        async def is_idle() -> bool:
            return not (await thread.get()).working_run_id

        await self.until("the thread has the messages of its runs", is_idle)
        messages: list[Bubble] = [(one.role, one.content) async for one in thread.messages()]
        await self.page.reload()

        async def shows_all() -> bool:
            return await self.page.shown() == messages

        await self.until("the page shows the messages of the thread after a reload", shows_all)
        self.check("messages, each once, in order", [one.goal for one in runs], [*SAID])
        succeeded = [one.status == RunStatus.SUCCEEDED for one in runs]
        self.check("messages that are answered", sum(succeeded), len(SAID))
        for run in runs:
            answer = (await self.client.run(run.id).result())["reply"]
            self.check(f"tokens of the answer to “{run.goal}”", await self._streamed(run), answer)
            if run.goal == WISH:
                self.check("messages that were added to it", answer.count(f"\n> {ADDED}\n"), 1)
        self.check("the talk in the page after a reload", await self.page.shown(), messages)
        for run in runs[:-1]:
            attempts = [one async for one in self.client.run(run.id).executions()]
            what = f"answers to “{run.goal}” that were begun"
            self.check(what, len(attempts), 1)
        calls = [entry async for entry in self.client.run(runs[-1].id).journal()]
        ends = Counter(one.name for one in calls if one.mark == JournalMark.END)
        promised = {"model": 2, "ask": 1, "order": 1}
        recorded = {name: ends[name] for name in promised}
        self.check("calls of the turn whose worker was killed", recorded, promised)
        by_person = [text for role, text in messages if role == "user"]
        self.check("the person's messages in the thread", by_person, [*SAID[:-1], ADDED, ORDER])
        self.check(
            "messages of the thread by the tool", [role for role, _ in messages].count("tool"), 1
        )
        lines = self.orders.read_text(encoding="utf-8").splitlines()
        placed = [line.partition(" ")[2] for line in lines]
        self.check("orders that were placed", placed, [ORDER.removeprefix("order ")])
        self.broken += self.page_errors
        for one in self.broken:
            self.console.print(f"VIOLATED: {one}", style="bold red")
        return not self.broken

    async def _streamed(self, run: Run) -> str:
        """Return an answer as its tokens make it up, whatever came twice."""
        text = ""
        async with self.client.run(run.id).logs(kinds=[LogKind.CHUNK]) as chunks:
            async for chunk in chunks:
                text = with_tokens(text, chunk.text)
        return text

    def check(self, what: str, found: object, promised: object) -> None:
        """Print what was found, and note it if it isn't what was promised."""
        if found == promised:
            line = f"survived: {what}: {plain(str(found), 1_000)}"
            self.console.print(line, style="green", no_wrap=True, overflow="ellipsis")
        else:
            self.broken.append(f"{what}: {found}, not {promised}")

    # The programs.

    async def start(self, program: Program) -> None:
        """Start a program, and wait until it answers."""
        await program.start()
        if program is not self.worker:
            asks = self._server_answers if program is self.server else self._app_answers
            await self.until(f"the {program.name} answers", asks)
        again = " again" if program.starts > 1 else ""
        self.log(f"{program.name} up{again}, pid {program.pid}", "green")

    async def _server_answers(self) -> bool:
        if not self.token.exists():
            return False  # It is minted at the first start.
        try:
            async with self._new_client() as client:
                await client.info()
        except StepwellClientError:
            return False
        return True

    async def _app_answers(self) -> bool:
        try:
            async with httpx.AsyncClient() as http:
                return (await http.get(self.base)).is_success
        except httpx.TransportError:
            return False

    async def kill(self, program: Program) -> None:
        """Kill a program in the middle of an answer, and start it again."""
        pid = program.pid
        await program.kill()
        self.log(
            f"kill -9 {pid}: the {program.name} is dead, in the middle of an answer", "bold red"
        )
        await asyncio.sleep(DARK_SECONDS)
        await self.start(program)

    async def until(self, what: str, reached: Callable[[], Awaitable[bool]]) -> None:
        """Wait until a condition holds. Raises DemoFailed if a program ends meanwhile, or it takes too long."""
        end = time.monotonic() + WAIT_SECONDS_MAX
        while not await reached():
            if self.page_errors:
                raise DemoFailed(f"an error in the page: {self.page_errors[0]}")
            for program in (self.server, self.worker, self.app):
                program.check()
            if time.monotonic() > end:
                logs = [one.log_end() for one in (self.server, self.worker, self.app)]
                raise DemoFailed(f"{what}: not within {WAIT_SECONDS_MAX:.0f} s\n" + "\n".join(logs))
            await asyncio.sleep(0.05)

    def log(self, words: str, style: str = "") -> None:
        """Print a line with the time."""
        self.console.print(f"{datetime.now().astimezone():%H:%M:%S} {words}", style=style)


def free_port() -> int:
    """Return a port that is free now, out of those that no connection is given."""
    while True:
        port = random.randrange(20_000, 30_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def demo(arguments: Sequence[str] | None = None) -> int:
    """Read the arguments, and play."""
    parser = argparse.ArgumentParser(
        prog="demo-chat", description="A chat in the browser that survives kill -9."
    )
    parser.add_argument("--by", choices=("chromium", "http"), help="how the page is used")
    options = parser.parse_args(arguments)
    program = None if options.by == "http" else find_chromium()
    if options.by == "chromium" and program is None:
        parser.error("there is no Chromium on the PATH")
    # A private folder with a short name: a socket's path has at most 100 bytes.
    with tempfile.TemporaryDirectory(prefix="stepwell-") as folder:
        return main(lambda console: Demo(Path(folder), console, program))


if __name__ == "__main__":
    sys.exit(demo())
