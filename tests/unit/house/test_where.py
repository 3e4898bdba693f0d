"""Every path is there that CONTRIBUTING names in its map of the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.house.source import TOP, write_tree

SERVICE = "service/stepwell"
_PATH = re.compile(r"`([A-Za-z_.][\w./-]*/[\w./-]*\w|\w+\.py)`")


def missing_paths(top: Path, text: str) -> Iterator[str]:
    """Yield each path in backticks that is neither below the top nor below the service's package."""
    for path in dict.fromkeys(_PATH.findall(text)):
        if not any((base / path).exists() for base in (top, top / SERVICE)):
            yield path


def test_contributing_names_existing_paths() -> None:
    text = (TOP / "CONTRIBUTING.md").read_text(encoding="utf-8")
    _, _, rest = text.partition("## Where things are")
    code_map, end, _ = rest.partition("## Habits")

    assert end
    assert list(missing_paths(TOP, code_map)) == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("`engine/runs.py` and `drivers/sql`", []),
        ("`engine/gone.py`", ["engine/gone.py"]),
        ("`gone.py`", ["gone.py"]),
        ("`make test` and `lease_ms`", []),
    ],
)
def test_missing_path_is_reported(tmp_path: Path, text: str, missing: list[str]) -> None:
    write_tree(tmp_path, {"service/stepwell/engine/runs.py": "", "drivers/sql/store.py": ""})

    assert list(missing_paths(tmp_path, text)) == missing
