"""The frame of the proofs: sizes by scale, records that add up, a page that is written from them."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.support.proofs import page, sizes
from tests.support.proofs.must_happen import MUST_HAPPEN
from tests.support.proofs.record import FOLDER, Record, happened, keep, kept, together
from tests.support.proofs.sizes import SCALE, SIZES, Scale, chunks, size

TESTS = Path(__file__).parents[2]
SIMULATOR = TESTS / "simulation" / "simulator"


def test_each_scale_plays_more_than_the_one_before() -> None:
    for name, one in SIZES.items():
        assert 0 <= one.test <= one.proof <= one.soak, name
        assert one.proof, name


def test_the_environment_picks_the_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SCALE, raising=False)
    assert size("kills") == SIZES["kills"].test
    monkeypatch.setenv(SCALE, Scale.PROOF)
    assert size("kills") == SIZES["kills"].proof
    monkeypatch.setenv(SCALE, "everything")
    with pytest.raises(ValueError, match="everything"):
        sizes.scale()


def test_chunks_cover_a_size_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SIZES, "kills", sizes.Size(7, 10, 11))
    monkeypatch.setenv(SCALE, Scale.PROOF)
    assert [list(one) for one in chunks("kills", 4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_parts_of_a_proof_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = Record("kills, here", "make it", {"kills": 3}, {"disk full": 1}, 1.5, "7")
    keep(part)
    assert not list(tmp_path.iterdir())

    monkeypatch.setenv(FOLDER, str(tmp_path))
    keep(part)
    keep(part._replace(figures={"kills": 4, "lost": 0}, happened=Counter(), seed="8"))
    happened("disk full")

    found = together(kept(tmp_path))
    assert found == [
        Record("", "", {}, {"disk full": 1}),
        Record(
            "kills, here", "make it", {"kills": 7, "lost": 0}, {"disk full": 1}, 3.0, found[1].seed
        ),
    ]
    assert sorted(found[1].seed.split(", ")) == ["7", "8"]


def test_the_page_is_written_where_it_says_so() -> None:
    marks = "<!-- as last played: begin figures -->\nold\n<!-- as last played: end figures -->\n"
    body = page.figures([Record("a proof", "make proof", {"kills": 1_000}, {}, 2.0, "")])
    fresh = page.put(f"before\n{marks}after\n", "figures", body)
    assert "| a proof | 1,000 kills | 2 s | – | `make proof` |" in fresh
    assert "old" not in fresh
    assert fresh.startswith("before\n")
    assert fresh.endswith("after\n")
    with pytest.raises(ValueError, match="no region rare"):
        page.put(fresh, "rare", "")


def test_what_must_happen_is_looked_for_somewhere() -> None:
    """A name that no proof can note would make every whole run red."""
    texts = [
        node.value
        for path in (*TESTS.rglob("*.py"), *SIMULATOR.glob("*.py"))
        if path.name != "must_happen.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    missing = [name for name in MUST_HAPPEN if name not in texts]
    assert not missing


def test_every_proof_that_is_sized_is_found_by_its_mark() -> None:
    """A test that asks for a size without the mark would be left out of the whole run."""
    for path in TESTS.rglob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        if path.name != "test_frame.py" and ("import size" in text or "chunks" in text):
            asks = "tests.support.proofs.sizes" in text
            assert not asks or "mark.proof" in text, path.relative_to(TESTS)
