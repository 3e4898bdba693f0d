r"""Cleans machine-written texts, so that every store can hold them.

No store accepts U+0000 or half of a surrogate pair. A person's text with one is refused. In
failures, log lines and model output it is replaced by an escape as in Python: `\x00`, `\udc80`. The
client does the same to its workers' texts.
"""

from __future__ import annotations

import re

_ID_ENDING_CHARS = 12
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def storable(text: str) -> str:
    """Return a text with escapes for characters that stores can't hold."""
    return text.replace("\0", r"\x00").encode("utf-8", "backslashreplace").decode()


def one_line(text: str) -> str:
    """Return a text with escapes also for all control characters, as short texts require."""
    return storable(_CONTROL.sub(_escape, text))


def id_ending(run_id: str) -> str:
    """Return the part of a run's id in which its forks' ids agree with it: what stands behind the last `-`.

    It has at most the 12 characters that the last part of a UUID has.
    """
    return run_id.rpartition("-")[2][-_ID_ENDING_CHARS:]


def _escape(found: re.Match[str]) -> str:
    return f"\\x{ord(found[0]):02x}"
