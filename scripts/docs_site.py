"""Lays out the pages of the documents' site, and checks what was built of them; called by `make docs`.

    python -m scripts.docs_site prepare build/docs    # the pages, as mkdocs wants them
    python -m scripts.docs_site check build/site      # fails where a page would load something from elsewhere

In the repository a page links to files outside of `docs/`: code, protocol, compositions. The site has a page for each
of these under `source/`, and the links lead there. The README is its first page. Only the standard library is used.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
LANGUAGES = {".py": "python", ".yaml": "yaml", ".toml": "toml", ".proto": "protobuf", ".ts": "ts"}
PICTURES = frozenset({".svg", ".png"})

_LINK = re.compile(r"\]\((?P<path>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
_FENCE = re.compile(r"^(?P<fence>`{3,})[^\n]*\n.*?^(?P=fence)\n", re.MULTILINE | re.DOTALL)
_FOREIGN = re.compile(r"(?:https?:)?//")
_CSS_ADDRESS = re.compile(r"(?:url\(\s*|@import\s+)['\"]?((?:https?:)?//[^'\")\s]+)")


def place_in_site(path: str) -> str:
    """Return where a file of the repository stands in the site."""
    if path == "README.md":
        return "index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    suffix = Path(path).suffix
    return f"source/{path}" if suffix == ".md" or suffix in PICTURES else f"source/{path}.md"


def relinked(text: str, path: str, note: Callable[[str], object]) -> str:
    """Return a page with its links as the site has them; `note` is given each file that they lead to."""

    def link(found: re.Match[str]) -> str:
        if re.match(r"[a-z]+:", found["path"]):
            return found[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), found["path"]))
        note(target)
        here = posixpath.dirname(place_in_site(path))
        return f"]({posixpath.relpath(place_in_site(target), here or '.')}{found['anchor'] or ''})"

    made: list[str] = []
    end = 0
    for fence in _FENCE.finditer(text):
        made += [_LINK.sub(link, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*made, _LINK.sub(link, text[end:])])


def page_of(path: Path, name: str) -> str:
    """Return a page that shows a file, or the names in a folder."""
    if path.is_dir():
        names = sorted(one.name for one in path.iterdir() if not one.name.startswith(("_", ".")))
        return "".join([f"# {name}\n\n", *(f"- `{one}`\n" for one in names)])
    language = LANGUAGES.get(path.suffix, "text")
    return f"# {name}\n\n````{language}\n{path.read_text(encoding='utf-8').rstrip()}\n````\n"


def prepare(folder: Path) -> None:
    """Write all pages: the README, those of `docs/`, and the files that they link to."""
    shutil.rmtree(folder, ignore_errors=True)
    docs = (path for path in (TOP / "docs").rglob("*") if path.is_file())
    wanted = ["README.md", *sorted(str(path.relative_to(TOP)) for path in docs)]
    written: set[str] = set()
    while wanted:
        name = wanted.pop(0)
        if name in written:
            continue
        written.add(name)
        source, made = TOP / name, folder / place_in_site(name)
        made.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            text = source.read_text(encoding="utf-8")
            made.write_text(relinked(text, name, wanted.append), encoding="utf-8")
        elif source.suffix in PICTURES:
            shutil.copyfile(source, made)
        else:
            made.write_text(page_of(source, name), encoding="utf-8")


class _Loads(HTMLParser):
    """Collects the addresses that a page loads by itself, and whether it has a policy against others."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.has_policy = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "meta" and given.get("http-equiv") == "Content-Security-Policy":
            self.has_policy = "default-src 'self'" in given.get("content", "")
        if tag == "link" and given.get("rel") not in {"canonical", "edit"}:
            self.addresses.append(given.get("href", ""))
        if tag not in {"a", "link"}:
            self.addresses += [given.get("src", ""), given.get("data", "")]
        self.addresses += _CSS_ADDRESS.findall(given.get("style", ""))


def foreign_addresses(text: str, suffix: str) -> Iterator[str]:
    """Yield what is wrong with a file of the site: each foreign address that it loads, a missing policy."""
    if suffix == ".css":
        yield from _CSS_ADDRESS.findall(text)
    if suffix == ".html":
        page = _Loads()
        page.feed(text)
        yield from (address for address in page.addresses if _FOREIGN.match(address))
        if not page.has_policy:
            yield "no Content-Security-Policy, which keeps scripts from loading others"


def check(folder: Path) -> list[str]:
    """Return what is wrong with a built site, by file."""
    pages = [path for path in sorted(folder.rglob("*")) if path.suffix in {".html", ".css"}]
    wrong = [
        f"{path.relative_to(folder)}: {what}"
        for path in pages
        for what in foreign_addresses(path.read_text(encoding="utf-8"), path.suffix)
    ]
    return wrong if pages else [f"{folder}: no page"]


def main() -> int:
    """Prepare the pages, or check the site."""
    what, folder = sys.argv[1:]
    if what == "prepare":
        prepare(Path(folder))
        return 0
    wrong = check(Path(folder))
    sys.stderr.write("".join(f"{line}{os.linesep}" for line in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
