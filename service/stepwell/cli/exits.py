"""The exit codes of all commands.

0    done; of a run that was followed: it SUCCEEDED
1    not done; of a run: it FAILED
2    usage: an argument, an option or a setting is wrong, or names nothing
3    the run was CANCELLED
4    the run is WAITING for something or PAUSED
5    the server can't be reached, or refuses: no token, or one that it doesn't know
130  interrupted; a run that was followed goes on
"""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """An exit code."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    CANCELLED = 3
    STANDS_STILL = 4
    UNREACHABLE = 5
    INTERRUPTED = 130


class CliError(Exception):
    """An expected error: one line for people with its remedy, and the exit code."""

    def __init__(self, message: str, code: Exit = Exit.USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
