"""Every path is there that CONTRIBUTING names in its map of the code."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.unit.house.source import TOP

SERVICE = "service/stepwell"
_PATH = re.compile(r"`([A-Za-z_.][\w./-]*/[\w./-]*\w|\w+\.py)`")


def missing_paths(text: str) -> Iterator[str]:
    """Yield each path in backticks that is neither below the top nor below the service's package."""
    for path in dict.fromkeys(_PATH.findall(text)):
        if not any((base / path).exists() for base in (TOP, TOP / SERVICE)):
            yield path


def test_contributing_names_existing_paths() -> None:
    text = (TOP / "CONTRIBUTING.md").read_text(encoding="utf-8")
    _, _, rest = text.partition("## Where things are")
    code_map, end, _ = rest.partition("## Habits")

    assert end
    assert list(missing_paths(code_map)) == []


def test_missing_path_is_reported() -> None:
    text = "`engine/runs.py`, `drivers/stepwell_drivers`, `make test`: `engine/gone.py`, `gone.py`"

    assert list(missing_paths(text)) == ["engine/gone.py", "gone.py"]
