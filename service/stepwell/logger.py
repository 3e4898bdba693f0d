"""Loggers of the service and the drivers: those of the standard library, with fields by name.

    log = get_logger(__name__)
    log.warning("claims fail; they are tried again", error=error.message)

Nothing is printed until the process sets up `logging`: the server does (`stepwell.rpc.logs`), and a
program that embeds the loop may.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any

PACKAGES = ("stepwell", "stepwell_drivers")
"""The parent loggers of all ours."""
_KEYWORDS = frozenset({"exc_info", "stack_info", "stacklevel"})

for _package in PACKAGES:
    # Otherwise the standard library prints warnings if no handler is set up.
    logging.getLogger(_package).addHandler(logging.NullHandler())


class Logger(logging.LoggerAdapter[logging.Logger]):
    """A standard logger whose methods take an event and its fields.

    Its records' text is `event name='value'`; they also have both separately as `event` and
    `fields`.
    """

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        """Return the record's text and the arguments of the logger below."""
        fields = {name: value for name, value in kwargs.items() if name not in _KEYWORDS}
        passed: dict[str, Any] = {name: kwargs[name] for name in kwargs.keys() & _KEYWORDS}
        text = " ".join([msg, *(f"{name}={value!r}" for name, value in fields.items())])
        return text, {**passed, "extra": {"event": msg, "fields": fields}}


def get_logger(name: str) -> Logger:
    """Return the logger of a module by its name."""
    return Logger(logging.getLogger(name))
