"""The files of the page, from the package, and headers that restrict browsers to what the page needs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import NamedTuple

from stepwell.console.reply import Response, Scope

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " worker-src 'self'; frame-ancestors 'none'; form-action 'none'; base-uri 'none'"
)
HEADERS = (
    ("content-security-policy", _POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    # A proxy in front passes each message of a stream on at once.
    ("x-accel-buffering", "no"),
)
"""Headers of every response of the port."""

_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
_HASHED = re.compile(r"-[0-9A-Z]{8}\.[a-z]+$")
"""The suffix of names that change with the file's content."""
_INDEX = "index.html"


class File(NamedTuple):
    """A file in its sent form."""

    data: bytes
    content_type: str
    etag: str
    is_hashed: bool


def read_files() -> Mapping[str, File]:
    """Return the page's files by their names."""
    folder = files("stepwell.console") / "assets"
    found: dict[str, File] = {}
    for one in folder.iterdir():
        content_type = _TYPES.get(one.name.rpartition(".")[2])
        if content_type is not None:
            found[one.name] = _file(one.read_bytes(), content_type, one.name)
    return found


def _file(data: bytes, content_type: str, name: str) -> File:
    etag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    return File(data, content_type, etag, bool(_HASHED.search(name)))


class Pages:
    """Answers GET and HEAD: assets by name, and every other path with the page, which has links of its own.

    The page names its files relative to the request's path, so it also works behind a proxy that serves the
    console below a path of its own and strips that.
    """

    def __init__(self) -> None:
        self._files = read_files()
        self._index = self._files[_INDEX]

    async def serve(self, scope: Scope, response: Response) -> None:
        """Answer a request."""
        path: str = scope["path"]
        if not path.startswith("/assets/"):
            # Not `path`, in which an encoded slash counts, too.
            depth = scope["raw_path"].count(b"/") - 1
            data = self._index.data.replace(
                b'"/assets/', b'"' + (b"../" * depth or b"./") + b"assets/"
            )
            await _send(_file(data, self._index.content_type, _INDEX), scope, response)
            return
        file = self._files.get(path.removeprefix("/assets/"))
        if file is None:
            await response.whole(404, _TYPES["txt"], b"there is no such file\n")
            return
        await _send(file, scope, response)


async def _send(file: File, scope: Scope, response: Response) -> None:
    caching = "public, max-age=31536000, immutable" if file.is_hashed else "no-cache"
    headers = (("cache-control", caching), ("etag", file.etag))
    if (b"if-none-match", file.etag.encode()) in scope["headers"]:
        await response.start(304, [(key.encode(), value.encode()) for key, value in headers])
        await response.end(b"")
        return
    await response.whole(200, file.content_type, file.data, *headers)
