r"""Texts that a machine wrote, as every store can hold them.

No store keeps U+0000 or half of a surrogate pair. A person's text with one is refused; a failure, a log line or
a model's words are kept, and an escape as in Python stands in its place: `\x00`, `\udc80`. The client does the
same to what its workers send.
"""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def storable(text: str) -> str:
    """Return a text with escapes for what no store can hold."""
    return text.replace("\0", r"\x00").encode("utf-8", "backslashreplace").decode()


def one_line(text: str) -> str:
    """Return a text with escapes for all control characters too, as a short text must be."""
    return storable(_CONTROL.sub(_escape, text))


def _escape(found: re.Match[str]) -> str:
    return f"\\x{ord(found[0]):02x}"
