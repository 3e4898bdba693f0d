"""Shell completion of run and task ids: asked of the server, within a second, and without a word where there is none."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

import typer

WAIT_S = 1.0
"""The time that an answer may take: a person waits for it in the middle of a line."""

Items = list[tuple[str, str]]
"""Words with what is said of each, for shells that show it."""


def complete_run(context: typer.Context, incomplete: str) -> Items:
    """Return the newest runs whose ids begin so, with their status and goal."""
    return _within_time(lambda: _suggestions().runs(context, incomplete))


def complete_task(context: typer.Context, incomplete: str) -> Items:
    """Return the tasks of the run that was named before, with their status and title."""
    return _within_time(lambda: _suggestions().tasks(context, incomplete))


def _suggestions() -> Any:
    # Every command imports this module, and the client takes a tenth of a second.
    return import_module("stepwell.cli.suggestions")


def _within_time(ask: Callable[[], Items]) -> Items:
    """Return what the server answers in time; nothing where it doesn't, or refuses."""
    found: Items = []

    def work() -> None:
        # A line of the client's log would stand in the middle of the person's line.
        logging.disable()
        with suppress(Exception):
            found.extend(ask())

    asking = threading.Thread(target=work, daemon=True)
    asking.start()
    asking.join(WAIT_S)
    return found
