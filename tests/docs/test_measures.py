"""The documents quote the bench's newest kept results, and nothing else."""

from __future__ import annotations

from bench import quote


def test_every_quoted_table_is_drawn_from_what_is_kept() -> None:
    assert quote.stale() == [], "run: .venv/bin/python -m bench.quote"


def test_every_table_is_quoted_somewhere() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in quote.PAGES)

    for name in quote.TABLES:
        assert f"<!-- measured by bench: begin {name} -->" in text
