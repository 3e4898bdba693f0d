"""The site of the documents has a page for all that is linked to, in an order, and loads nothing from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from scripts import docs_site

from tests.docs.pages import PAGES, TOP

POLICY = '<meta http-equiv="Content-Security-Policy" content="default-src \'self\'">'
CONFIG = (TOP / "mkdocs.yml").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    docs_site.prepare(folder)
    return folder


def test_every_page_of_the_documents_has_its_place_in_the_navigation() -> None:
    nav = CONFIG.partition("\nnav:\n")[2].partition("\nnot_in_nav:")[0]
    shown = re.findall(r"[:-] (\S+\.md)$", nav, re.MULTILINE)
    assert len(shown) == len(set(shown))
    assert set(shown) == {docs_site.place_in_site(str(page.relative_to(TOP))) for page in PAGES}


def test_links_lead_to_pages_of_the_site(site: Path) -> None:
    for page in site.rglob("*.md"):
        for found in docs_site._LINK.finditer(docs_site._FENCE.sub("", page.read_text("utf-8"))):
            if not found["path"].startswith(("http://", "https://")):
                assert (page.parent / found["path"]).exists(), f"{page.name}: {found['path']}"


def test_the_readme_is_the_first_page_and_a_linked_file_has_a_page(site: Path) -> None:
    assert "](concepts.md)" in (site / "index.md").read_text(encoding="utf-8")
    proto = (site / "source/proto/stepwell/v1/types.proto.md").read_text(encoding="utf-8")
    assert "````protobuf\n" in proto
    assert "- `migrations`" not in proto


@pytest.mark.parametrize(
    ("text", "suffix"),
    [
        ('<script src="https://cdn.example/a.js"></script>', ".html"),
        ('<link rel="stylesheet" href="//fonts.example/a.css">', ".html"),
        ('<img src="http://pictures.example/a.png">', ".html"),
        ("<p style=\"background: url('https://pictures.example/a.png')\">", ".html"),
        ("@import 'https://fonts.example/a.css';", ".css"),
        ("a { background: url(//pictures.example/a.png) }", ".css"),
    ],
)
def test_foreign_address_is_reported(text: str, suffix: str) -> None:
    found = list(docs_site.foreign_addresses(f"{POLICY}{text}", suffix))
    assert len(found) == 1
    assert "example" in found[0]


def test_page_without_a_policy_is_reported_and_one_with_links_alone_is_not() -> None:
    links = '<a href="https://example.org">x</a><script src="assets/a.js"></script>'
    assert list(docs_site.foreign_addresses(POLICY + links, ".html")) == []
    assert len(list(docs_site.foreign_addresses(links, ".html"))) == 1


def test_every_page_gets_the_policy_from_its_template() -> None:
    theme = (TOP / "scripts/docs_theme/main.html").read_text(encoding="utf-8")
    page = docs_site._Loads()
    page.feed(theme)
    assert page.has_policy
    assert "font: false" in CONFIG
