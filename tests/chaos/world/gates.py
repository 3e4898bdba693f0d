"""Functions that note in a file that they run, and that a test can hold at a gate."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.chaos.world.processes import Place
from tests.support.patience import until


@contextmanager
def noted(name: str) -> Iterator[None]:
    """Note that a function begins, and hold it while a gate of its name stands closed."""
    folder = Path(os.environ["SYSTEM_GATES"])
    with (folder / "ran").open("a") as file:
        file.write(f"{name}\n")
    while (folder / f"close-{name}").exists():
        time.sleep(0.02)
    yield


class Gates:
    """The gates of an agent's functions, and which of them ran."""

    def __init__(self, place: Place) -> None:
        self._folder = place.folder / "gates"

    def close(self, name: str) -> None:
        (self._folder / f"close-{name}").touch()

    def open(self, name: str) -> None:
        (self._folder / f"close-{name}").unlink()

    def ran(self) -> Counter[str]:
        file = self._folder / "ran"
        return Counter(file.read_text().split() if file.exists() else ())

    async def reached(self, name: str, times: int = 1) -> None:
        await until(lambda: self.ran()[name] >= times)
