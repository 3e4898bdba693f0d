"""Parses `sqlite:///` URLs and checks the file. Every refusal says what to do."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import NamedTuple

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from stepwell.core.records.errors import StoreRefused

BUSY_TIMEOUT_MS = 5_000
BUSY_TIMEOUT_MS_MAX = 60_000
PARAMETERS = ("busy_timeout_ms",)
"""All parameters that may follow the `?`. SQLite's own parameters could disable what the store promises."""

_NETWORK = ("nfs", "cifs", "smb", "afs", "9p", "ceph", "gluster", "lustre", "gpfs", "davfs", "ncp")
_LOCAL_FUSE = ("fuseblk", "fuse.ext", "fuse.ntfs", "fuse.stepwell")
_MOUNTS = Path("/proc/mounts")


class SqliteUrl(NamedTuple):
    """A file that may hold a store."""

    path: Path
    """Absolute, with links followed, so that one file has one name."""
    busy_timeout_ms: int


def parse(url: str) -> SqliteUrl:
    """Return the file that the URL names.

    Raises:
        StoreRefused: the URL names no file that may hold a store.
    """
    try:
        parts = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise StoreRefused("this is no URL; write sqlite:///PATH") from error
    if parts.drivername != "sqlite":
        raise StoreRefused(f"{parts.drivername}:// is not served here; write sqlite:///PATH")
    if parts.host or parts.username or parts.password or parts.port:
        raise StoreRefused("a SQLite file has no host; write sqlite:///PATH with three slashes")
    busy_timeout_ms = _parameters(dict(parts.query))
    return SqliteUrl(_path(parts.database or ""), busy_timeout_ms)


def _parameters(given: dict[str, tuple[str, ...] | str]) -> int:
    unknown = sorted(given.keys() - set(PARAMETERS))
    if unknown:
        allowed = ", ".join(PARAMETERS)
        raise StoreRefused(f"unknown URL parameter {unknown[0]!r}; allowed: {allowed}")
    value = given.get("busy_timeout_ms", str(BUSY_TIMEOUT_MS))
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 6:
        busy_timeout_ms = int(value)
        if busy_timeout_ms <= BUSY_TIMEOUT_MS_MAX:
            return busy_timeout_ms
    raise StoreRefused(f"busy_timeout_ms must be a number from 0 to {BUSY_TIMEOUT_MS_MAX}")


def _path(name: str) -> Path:
    if not name or name == ":memory:" or name.startswith("file:"):
        raise StoreRefused(
            "a store needs a file: write sqlite:///PATH (memory:// keeps nothing on disk)"
        )
    if "\0" in name:
        raise StoreRefused("the path holds a NUL character")
    try:
        path = Path(name).expanduser().resolve()
        found = path.stat() if path.exists() else None
        parent_is_there = path.parent.is_dir()
    except (OSError, RuntimeError) as error:
        raise StoreRefused(f"the path {name!r} can't be used: {error}") from error
    if not parent_is_there:
        raise StoreRefused(f"the directory {str(path.parent)!r} is missing; make it first")
    if found is not None:
        _check_file(path, found.st_mode, found.st_nlink)
    kind = file_system_of(path)
    if is_network(kind):
        raise StoreRefused(
            f"{str(path)!r} lies on a network file system ({kind}), where SQLite's locks and shared"
            " memory can't be trusted; use a local disk"
        )
    return path


def _check_file(path: Path, mode: int, links: int) -> None:
    if stat.S_ISDIR(mode):
        raise StoreRefused(f"{str(path)!r} is a directory; name a file in it")
    if not stat.S_ISREG(mode):
        raise StoreRefused(f"{str(path)!r} is no regular file")
    if links > 1:
        raise StoreRefused(
            f"{str(path)!r} has {links} names (hard links), and SQLite's log has only one; remove"
            " the others"
        )


def file_system_of(path: Path, mounts: Path = _MOUNTS) -> str:
    """Return the type of the file system that holds the path, or "" if unknown."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    best, kind = -1, ""
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        place = Path(fields[1].replace("\\040", " ").replace("\\011", "\t"))
        # The last of equally long mount points wins, because it was mounted over the others.
        if path.is_relative_to(place) and len(place.parts) >= best:
            best, kind = len(place.parts), fields[2]
    return kind


def is_network(kind: str) -> bool:
    """Return whether a file system is on a network (an unknown kind of FUSE counts as one)."""
    if kind.startswith("fuse"):
        return not kind.startswith(_LOCAL_FUSE) and kind not in {"fuse", "fusectl"}
    return kind.startswith(_NETWORK)
