r"""Cleans machine-written texts, so that the protocol and every store can hold them.

Stores refuse U+0000, and messages refuse half a surrogate pair, which file names may contain. They
are replaced by escapes as in Python: `\x00`, `\udc80`.
"""

from __future__ import annotations


def storable_bytes(text: str) -> bytes:
    """Return a text in UTF-8, with escapes for characters that stores can't hold."""
    return text.replace("\0", r"\x00").encode("utf-8", "backslashreplace")


def storable(text: str) -> str:
    """Return a text with escapes for characters that stores can't hold."""
    return storable_bytes(text).decode()
