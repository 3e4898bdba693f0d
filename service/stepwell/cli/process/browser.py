"""Files that lead a browser to an address with a code, which so stands in no process list."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from html import escape
from pathlib import Path

_PAGE = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}">
<title>Stepwell</title>
<a href="{url}">the console</a>
"""


def has_browser() -> bool:
    """Return whether a browser can be opened here: on a Linux without a screen only one that was named."""
    if sys.platform != "linux" or os.environ.get("BROWSER"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


@contextmanager
def leading_file(url: str) -> Generator[str]:
    """Yield the URL of a file that leads to this one; it is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="stepwell-") as folder:
        path = Path(folder, "console.html")
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(file, _PAGE.format(url=escape(url)).encode())
        finally:
            os.close(file)
        yield path.as_uri()
