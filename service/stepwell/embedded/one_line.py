"""Shows a person's stop or mistake as one line where nobody catches it, instead of a traceback."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType

from stepwell.core.records.errors import AlreadyExists, RunNotFound, StoreRefused

_MISTAKES = (AlreadyExists, RunNotFound, StoreRefused)
_stopped: dict[str, str] = {}
"""The lines that are printed after Ctrl-C, by the ids of the stopped runs."""


@contextmanager
def shown(run_id: str, kept: str) -> Generator[None]:
    """Print `kept` if Ctrl-C stops the run within the block and ends the program, and mistakes as one line.

    A program that has an excepthook of its own keeps it.
    """
    _stopped.pop(run_id, None)
    try:
        yield
    except _MISTAKES:
        _install()
        raise
    except BaseException:
        _stopped[run_id] = kept
        _install()
        raise


def _install() -> None:
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _show


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if isinstance(error, _MISTAKES):
        sys.stderr.write(f"error: {error.message}\n")
    elif isinstance(error, KeyboardInterrupt) and _stopped:
        sys.stderr.write("".join(f"{line}\n" for line in _stopped.values()))
    else:
        sys.__excepthook__(kind, error, trace)
