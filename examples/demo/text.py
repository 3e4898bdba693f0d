"""Words for people: numbers with their nouns, and names of files that may hold anything."""

from __future__ import annotations


def some(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def plain(text: str, chars_max: int = 200) -> str:
    """Return text as one printable line of valid Unicode: not every name of a file is that."""
    text = text.encode("utf-8", "backslashreplace").decode()
    shown = "".join(char if char.isprintable() else "�" for char in text)
    return shown if len(shown) <= chars_max else f"{shown[: chars_max - 1]}…"
