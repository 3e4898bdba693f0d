"""The base of all servers: a folder, a port, and a life that a test may end and begin."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self

from tests.support.backends import ports
from tests.support.backends.child import Child, NotStarted, drop_folder, new_folder

START_TRIES_MAX = 5


class Server:
    """A server in a folder of its own, at a place that stays the same while it is down."""

    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    # How it says that somebody else has its port.
    port_taken: ClassVar[str]

    def __init__(
        self, name: str, *, settings: Mapping[str, str], inside: Path | None = None
    ) -> None:
        self.folder = new_folder(name, inside)
        self.log = self.folder / "server.log"
        self.settings: dict[str, str] = dict(settings)
        self.port = ports.reserve()
        self._child: Child | None = None

    def _launch(self) -> Child:
        """Writes its settings and starts its process."""
        raise NotImplementedError

    def _ready(self) -> bool:
        """One look whether it serves."""
        raise NotImplementedError

    def prove(self) -> None:
        """Raises `NotStarted` unless it is this process that answers at its addresses."""
        raise NotImplementedError

    def _move(self) -> None:
        """Takes another port."""
        ports.release(self.port)
        self.port = ports.reserve()

    @property
    def _alive(self) -> Child:
        assert self._child is not None, "not started"
        return self._child

    @property
    def pid(self) -> int:
        return self._alive.pid

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.running

    def start(self) -> Self:
        """Starts it and proves that it is this one that answers; goes on if it was frozen."""
        if self.running:
            self.thaw()
            return self
        first = self._child is None
        for left in reversed(range(START_TRIES_MAX)):
            self._child = self._launch()
            try:
                self._child.wait_until(self._ready, type(self).__name__)
                break
            except NotStarted as error:
                self._child.kill()
                # Before anybody knows the port, another one is as good.
                if not first or not left or self.port_taken not in str(error):
                    raise
                self._move()
        self.prove()
        return self

    def stop(self) -> None:
        """Asks it to end as its operator would; what it holds is flushed."""
        if self._child is not None:
            self._child.stop(self.stop_signal)

    def kill(self) -> None:
        """SIGKILL to all of it at once; what was flushed is there after the next start."""
        self._alive.kill()

    def restart(self, *, kill: bool = False, settings: Mapping[str, str] | None = None) -> None:
        """Down and up again at the same place, with its data, and changed settings if given."""
        if kill:
            self.kill()
        else:
            self.stop()
        self.settings |= settings or {}
        self.start()

    def freeze(self) -> None:
        """SIGSTOP: connections stay open, new ones are taken by the kernel, nobody answers."""
        self._alive.freeze()

    def thaw(self) -> None:
        self._alive.thaw()

    def close(self) -> None:
        """Its end, with its folder and its port."""
        if self._child is not None:
            self._child.kill()
        drop_folder(self.folder)
        ports.release(self.port)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()
