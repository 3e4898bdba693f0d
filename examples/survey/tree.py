"""The files of a survey, and their division into parts.

Symbolic links, other file systems, hidden folders and what tools leave behind are passed over. The
walk has bounds, so a survey of `/` ends too, and says that it was cut.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

FOLDERS_MAX = 20_000
ENTRIES_PER_FOLDER_MAX = 100_000
CHILDREN_MAX = 40
"""A folder with more folders in it than this is split by counting its files off."""
LEFT_BEHIND = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})


@dataclass(frozen=True)
class Part:
    """A piece of the tree: some files of a folder, numbered in the order of the walk."""

    folder: str
    """Below the top; empty: the top itself."""
    deep: bool
    """With all that lies below the folder, not only directly in it."""
    first: int
    last: int
    """Included. The plan counted them, so all parts together keep its bound."""
    is_whole: bool = True
    """All of the folder's files that the plan found."""

    @property
    def files(self) -> int:
        """The number of files when the plan was made."""
        return self.last - self.first + 1

    @property
    def title(self) -> str:
        """For people."""
        folder = self.folder or "."
        if not self.is_whole:
            return f"{folder} (files {self.first}–{self.last})"
        return folder if self.deep else f"{folder} (files only)"


@dataclass(frozen=True)
class Deal:
    """The division of a tree into parts."""

    parts: list[Part]
    files: int
    is_cut: bool
    """The tree has more than the bounds allow."""


def deal(top: Path, *, parts_wanted: int, files_max: int) -> Deal:
    """Divide a tree: its largest part is split, folder by folder, until there are enough."""
    direct, is_cut = _count(top, files_max)
    total = _with_those_below(direct)
    if not total:
        return Deal([], 0, is_cut)
    children: dict[str, list[str]] = {}
    for folder in total:
        if folder:
            children.setdefault(_parent(folder), []).append(folder)

    def split(part: Part) -> list[Part]:
        inner = children.get(part.folder, []) if part.deep and part.is_whole else []
        if not 0 < len(inner) <= CHILDREN_MAX:
            middle = (part.first + part.last) // 2
            lower, upper = replace(part, last=middle), replace(part, first=middle + 1)
            return [replace(half, is_whole=False) for half in (lower, upper)]
        pieces = [Part(folder, deep=True, first=1, last=total[folder]) for folder in inner]
        if direct[part.folder]:
            pieces.insert(0, Part(part.folder, deep=False, first=1, last=direct[part.folder]))
        return pieces

    parts = [Part("", deep=True, first=1, last=total[""])]
    while len(parts) < parts_wanted:
        largest = max(parts, key=lambda part: part.files)
        if largest.files == 1:
            break
        place = parts.index(largest)
        parts[place : place + 1] = split(largest)
    return Deal(parts, total[""], is_cut)


def files_of(top: Path, part: Part) -> Iterator[str]:
    """Every file of a part, as paths below the top."""
    number = 0
    for folder, names in _walk(top, part.folder, deep=part.deep):
        for name in names:
            number += 1
            if number > part.last:
                return
            if number >= part.first:
                yield _join(folder, name)


def all_files(top: Path, files_max: int) -> Iterator[str]:
    """The files of the whole tree, as many as the bound allows."""
    return islice(
        (_join(folder, name) for folder, names in _walk(top, "", deep=True) for name in names),
        files_max,
    )


def _count(top: Path, files_max: int) -> tuple[dict[str, int], bool]:
    """Files directly in each folder; and whether a bound cut the walk short."""
    found: dict[str, int] = {}
    left = files_max
    for folder, names in _walk(top, "", deep=True):
        found[folder] = min(len(names), left)
        left -= found[folder]
        if len(names) > found[folder] or len(found) >= FOLDERS_MAX:
            return found, True
    return found, False


def _with_those_below(direct: dict[str, int]) -> dict[str, int]:
    """Files in each folder and all below it, in the order of names; folders without any are left out."""
    total: dict[str, int] = {}
    for folder, files in direct.items():
        while files:
            total[folder] = total.get(folder, 0) + files
            if not folder:
                break
            folder = _parent(folder)
    return dict(sorted(total.items()))


def _walk(top: Path, folder: str, *, deep: bool) -> Iterator[tuple[str, list[str]]]:
    """Folders with the names of their files; those near the top first, so that a cut is fair."""
    device = top.stat().st_dev
    waiting = deque([folder])
    while waiting:
        here = waiting.popleft()
        files: list[str] = []
        folders: list[str] = []
        try:
            with os.scandir(top / here) as entries:
                for entry in islice(entries, ENTRIES_PER_FOLDER_MAX):
                    if entry.is_file(follow_symlinks=False):
                        files.append(entry.name)
                    elif deep and _is_wanted(entry, device):
                        folders.append(_join(here, entry.name))
        except OSError:
            continue  # It went away, or is not ours to read.
        yield here, sorted(files)
        waiting.extend(sorted(folders)[: FOLDERS_MAX - len(waiting)])


def _is_wanted(entry: os.DirEntry[str], device: int) -> bool:
    return (
        not entry.name.startswith(".")
        and entry.name not in LEFT_BEHIND
        and entry.is_dir(follow_symlinks=False)
        and entry.stat(follow_symlinks=False).st_dev == device
        and not Path(entry.path, "pyvenv.cfg").exists()
    )


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _parent(folder: str) -> str:
    return folder.rpartition("/")[0]
