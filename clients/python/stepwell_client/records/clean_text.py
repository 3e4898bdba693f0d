r"""Texts that a machine wrote, as the protocol and every store can hold them.

No store keeps U+0000, and no message half of a surrogate pair, as in names of files. An escape as in Python
stands in its place: `\x00`, `\udc80`.
"""

from __future__ import annotations


def storable_bytes(text: str) -> bytes:
    """Return a text in UTF-8, with escapes for what no store can hold."""
    return text.replace("\0", r"\x00").encode("utf-8", "backslashreplace")


def storable(text: str) -> str:
    """Return a text with escapes for what no store can hold."""
    return storable_bytes(text).decode()
