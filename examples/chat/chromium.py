"""The chat's page in a headless Chromium, which is driven through a pipe by its DevTools protocol."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import signal
import sys
import tempfile
from asyncio.subprocess import DEVNULL
from contextlib import suppress
from typing import Any

from examples.chat.pages import Bubble, Page
from examples.demo.processes import DemoFailed

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
START_SECONDS = 60.0
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe"),
)
# Chromium reads commands from descriptor 3, and writes to 4.
EXEC = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
SHOWN = """[...document.querySelectorAll('#talk > *')].map((one) => [
    one.className || 'state', one.className === 'question' ? one.firstChild.data.trim() : one.textContent])"""


def find_chromium() -> str | None:
    """Return the path of a Chromium, if one is on the PATH."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class ChromiumPage(Page):
    """A tab of a browser of its own."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__(errors)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._sent = 0
        self._session: dict[str, str] = {}
        self._profile = tempfile.TemporaryDirectory(
            prefix="stepwell-chromium-", ignore_cleanup_errors=True
        )

    async def open(self, program: str, url: str) -> None:
        """Start the browser, and load the page. Raises DemoFailed if it doesn't start."""
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        theirs = [fcntl.fcntl(one, fcntl.F_DUPFD, 10) for one in (theirs_in, theirs_out)]
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-S", "-c", EXEC, *map(str, theirs), program, *FLAGS),
            f"--user-data-dir={self._profile.name}",
            pass_fds=theirs,
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=DEVNULL,
            start_new_session=True,
        )
        for one in (theirs_in, theirs_out, *theirs):
            os.close(one)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=1 << 24)
        protocol = asyncio.StreamReaderProtocol(reader)
        await loop.connect_read_pipe(lambda: protocol, os.fdopen(ours_in, "rb"))
        self._out = os.fdopen(ours_out, "wb", buffering=0)
        self._reading = asyncio.create_task(self._read(reader))
        try:
            async with asyncio.timeout(START_SECONDS):
                target = (await self._call("Target.createTarget", url="about:blank"))["targetId"]
                attached = await self._call("Target.attachToTarget", targetId=target, flatten=True)
                self._session = {"sessionId": attached["sessionId"]}
                await self._call("Runtime.enable")
                await self._call("Page.navigate", url=url)
                await self._loaded()
        except TimeoutError:
            raise DemoFailed(f"{program} doesn't answer") from None

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with suppress(asyncio.IncompleteReadError):
            while True:
                message = json.loads((await reader.readuntil(b"\0"))[:-1])
                if message.get("method") == "Runtime.exceptionThrown":
                    self.errors.append(json.dumps(message["params"]["exceptionDetails"]))
                waiting = self._waiting.pop(message.get("id", 0), None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(message)
        for waiting in self._waiting.values():
            waiting.set_exception(DemoFailed("the browser has ended"))

    async def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": params, **self._session}
        answer = self._waiting[self._sent] = asyncio.get_running_loop().create_future()
        if self._reading.done():
            raise DemoFailed("the browser has ended")
        self._out.write(json.dumps(message).encode() + b"\0")
        found = await answer
        if "error" in found:
            raise DemoFailed(f"{method}: {found['error']['message']}")
        return found["result"]

    async def _evaluate(self, script: str) -> Any:
        done = await self._call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in done:
            raise DemoFailed(f"the page says: {json.dumps(done['exceptionDetails'])}")
        return done["result"].get("value")

    async def _loaded(self) -> None:
        """Wait until the page's script has run."""
        while True:
            with suppress(DemoFailed):  # The document is being replaced.
                if await self._evaluate(
                    "!window.old && !!document.getElementById('form')?.onsubmit"
                ):
                    return
            if self._reading.done():
                raise DemoFailed("the browser has ended")
            await asyncio.sleep(0.05)

    async def shown(self) -> list[Bubble]:
        return [(kind, text) for kind, text in await self._evaluate(SHOWN)]

    async def send(self, text: str, on_busy: str = "enqueue") -> None:
        fill = f"form.goal.value = {json.dumps(text)}; form.on_busy.value = {json.dumps(on_busy)}"
        await self._evaluate(f"{fill}; form.querySelector('button').click()")
        # The page empties the field when the server has taken the message.
        while await self._evaluate("form.goal.value"):  # noqa: ASYNC110 - a page in another process has no event
            await asyncio.sleep(0.02)

    async def agree(self) -> None:
        await self._evaluate("document.querySelector('p.question button').click()")

    async def reload(self) -> None:
        await self._evaluate("window.old = true")
        await self._call("Page.reload")
        await self._loaded()

    async def close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        self._out.close()
        self._profile.cleanup()
