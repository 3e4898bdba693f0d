"""`scripts/bootstrap.py` says what it is doing, and in a sentence what keeps it from making an environment."""

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


def test_long_installation_is_reported_with_the_size_of_what_was_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[str] = []
    goes_on = tmp_path / "goes on"

    def report(text: str) -> None:
        reports.append(text)
        if "3 MB: Downloading" in text:
            goes_on.touch()

    monkeypatch.setattr(bootstrap, "report", report)
    monkeypatch.setattr(bootstrap, "SAY_EVERY_S", 0.02)
    installer = f"""
import tempfile, time
from pathlib import Path
folder = Path(tempfile.mkdtemp())
(folder / "wheel").write_bytes(bytes(3_000_000))
print("Downloading a model", flush=True)
while not Path({str(goes_on)!r}).exists():
    time.sleep(0.01)
"""

    assert bootstrap.run([sys.executable, "-c", installer], "installing") == 0

    assert reports
