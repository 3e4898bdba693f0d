"""Maps a server's refusals to the port's errors, by one table."""

from __future__ import annotations

import re
from enum import Enum, auto

from redis.exceptions import RedisError, ResponseError

from stepwell.core.records.errors import StoreFull, StoreUnavailable

WORDS_CHARS_MAX = 300


class Refusal:
    """An error that the server answered with."""

    __slots__ = ("code", "words")

    def __init__(self, code: str, words: str) -> None:
        self.code = code
        self.words = words

    def __repr__(self) -> str:
        return f"Refusal({self.code} {self.words})"


def refusal_of(error: RedisError) -> Refusal | None:
    """Return the server's refusal, or None if the library raised the error itself (a connection's,
    say).

    The library raises some refusals (LOADING, WRONGPASS …) as connection errors; its error code
    tells them apart. An unknown refusal is kept unchanged.
    """
    text = str(error)
    if error.status_code is not None:
        return Refusal(error.status_code, text)
    if isinstance(error, ResponseError):
        code, _, words = text.partition(" ")
        return Refusal(code, words)
    return None


class Meaning(Enum):
    """The consequence of a refusal. Nothing was done in any of these cases."""

    NO_SCRIPT = auto()
    """The server doesn't know the script: send its source."""
    MOVED = auto()
    """Another node owns the slot now."""
    ASK = auto()
    """Another node already has this key; it doesn't own the slot yet."""
    LATER = auto()
    """The same command may work in a moment."""
    ELSEWHERE = auto()
    """This server no longer accepts writes: find the primary, and retry."""
    FULL = auto()
    """The server has no room."""
    CLOSED = auto()
    """The server refuses this client; waiting doesn't help."""
    WRONG = auto()
    """The server refuses this command: a fault of the driver, or an unsuitable server."""


_MEANINGS = {
    "NOSCRIPT": Meaning.NO_SCRIPT,
    "MOVED": Meaning.MOVED,
    "ASK": Meaning.ASK,
    "TRYAGAIN": Meaning.LATER,
    "CLUSTERDOWN": Meaning.LATER,
    "LOADING": Meaning.LATER,
    "BUSY": Meaning.LATER,
    "NOREPLICAS": Meaning.LATER,
    "MASTERDOWN": Meaning.ELSEWHERE,
    "READONLY": Meaning.ELSEWHERE,
    "UNBLOCKED": Meaning.ELSEWHERE,
    "OOM": Meaning.FULL,
    "NOAUTH": Meaning.CLOSED,
    "WRONGPASS": Meaning.CLOSED,
    "NOPERM": Meaning.CLOSED,
    "EMPTIED": Meaning.CLOSED,
    "MISCONF": Meaning.LATER,
}
_ADVICE = {
    "OOM": "it has no memory left below its maxmemory; give it more, or delete or purge runs",
    "NOAUTH": "it wants a password; write redis://USER:PASSWORD@HOST:PORT",
    "WRONGPASS": "it doesn't know this user and password; look at the URL's",
    "NOPERM": "see docs/operating.md for the rights that its user needs",
    "EMPTIED": "it was emptied, or another store was put in the place of this one; restore its data, or start"
    " Stepwell's servers anew, which creates a new store",
    "LOADING": "it is still loading its data",
    "BUSY": "a script keeps it busy",
    "READONLY": "it is a replica; connect to the primary",
    "MASTERDOWN": "it is a replica without its primary",
    "CLUSTERDOWN": "the cluster is not whole; look at CLUSTER INFO",
    "TRYAGAIN": "a slot is on its way to another node",
    "MISCONF": "it can't write to its disk, and takes no writes until it can; look at its log",
    "NOREPLICAS": "it has fewer replicas than its min-replicas-to-write",
    "MOVED": "its slots keep moving",
}


def meaning_of(refusal: Refusal) -> Meaning:
    """Return the consequence of a refusal."""
    if refusal.code == "ERR" and "without authentication" in refusal.words:
        return Meaning.CLOSED
    return _MEANINGS.get(refusal.code, Meaning.WRONG)


def words_of(refusal: Refusal, name: str) -> str:
    """Return the refusal as a message for people; it never repeats the command."""
    advice = _ADVICE.get(refusal.code)
    if refusal.code == "NOPERM":
        # The words name the command, and neither a key nor a channel.
        found = re.search(r"'([\w|]+)' command", refusal.words)
        part = "channel" if "channel" in refusal.words else "keys"
        what = f"run {found[1].upper().replace('|', ' ')}" if found else f"use the store's {part}"
        return f"the Redis at {name} refuses (NOPERM): its user may not {what}; {advice}"
    if advice is not None:
        return f"the Redis at {name} refuses ({refusal.code}): {advice}"
    said = f"{refusal.code} {refusal.words}"[:WORDS_CHARS_MAX]
    return f"the Redis at {name} refuses: {''.join(c if c.isprintable() else '?' for c in said)}"


def error_of(refusal: Refusal, name: str) -> StoreUnavailable:
    """Return the port's error for a refusal that is not retried any further. Nothing was done."""
    words = words_of(refusal, name)
    if meaning_of(refusal) is Meaning.FULL or "No space left" in refusal.words:
        return StoreFull(words)
    return StoreUnavailable(words, reason=None)
