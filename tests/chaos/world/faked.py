"""Processes whose wall clock is in the test's hand: set forth and back while they run, by libfaketime.

Only the wall clock: the monotonic one is the machine's, as it is when an operator or NTP sets the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.backends.child import Child
from tests.support.backends.required import missing

HOUR_S = 3_600.0
_PLACES = (
    *Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"),
    Path("/usr/lib/faketime/libfaketimeMT.so.1"),
)


def library() -> Path:
    """Return where it is; skips the test where it isn't."""
    found = next((path for path in _PLACES if path.is_file()), None)
    if found is None:
        missing("faketime", "libfaketime is not installed (Debian: faketime)")
    return found


class Clock:
    """The wall clock of some processes, as far off as it was last set."""

    def __init__(self, folder: Path, name: str) -> None:
        self._file = folder / f"{name}.clock"
        self.off_s = 0.0
        self.set(0.0)

    def set(self, off_s: float, *, rate: float = 1.0) -> None:
        """Set it so far ahead of the true time (behind, below 0), and let it run at this rate from now on."""
        self.off_s = off_s
        # In one go: a process that reads half of it would take it for another time.
        new = self._file.with_suffix(".new")
        new.write_text(f"{off_s:+.3f}" + (f" x{rate}" if rate != 1.0 else ""), encoding="ascii")
        new.chmod(0o644)
        new.replace(self._file)

    @property
    def variables(self) -> dict[str, str]:
        """Return the environment of a process that lives by this clock."""
        return {
            "LD_PRELOAD": str(library()),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            # The file is read at each look at the clock: a jump is there at once.
            "FAKETIME_NO_CACHE": "1",
        }


class FakedChild(Child):
    """A database server's process that lives by a clock of ours."""

    clock: Clock

    def __init__(self, arguments: Sequence[str], **how: Any) -> None:
        set_so = [f"{name}={value}" for name, value in self.clock.variables.items()]
        super().__init__(["/usr/bin/env", *set_so, *arguments], **how)


def child_of(clock: Clock) -> type[FakedChild]:
    """Return the kind of child that lives by this clock."""
    return type("Faked", (FakedChild,), {"clock": clock})
