"""`scripts/bootstrap.py` says in a sentence what keeps it from making an environment."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from scripts import bootstrap


@pytest.mark.parametrize("made_by", [None, "python3.0"])
def test_environment_over_one_that_is_missing_or_of_another_python_is_not_begun(
    made_by: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below, above = tmp_path / "below", tmp_path / "above"
    if made_by is not None:
        (below / "lib" / made_by / "site-packages").mkdir(parents=True)
    arguments = ["--over", str(below), str(above), str(tmp_path / "requirements.txt")]
    monkeypatch.setattr(sys, "argv", ["bootstrap.py", *arguments])

    with pytest.raises(SystemExit, match=f"^error: {below} isn't there, or another Python"):
        bootstrap.main()

    assert not above.exists()
