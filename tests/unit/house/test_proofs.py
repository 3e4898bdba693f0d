"""The frame of the proofs: sizes by scale, shares, records that add up, and the page that is written from them."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.support.proofs import page, played, record, shares, sizes
from tests.support.proofs.must_happen import MUST_HAPPEN, SIMULATED
from tests.support.proofs.record import Record, happened, keep, together
from tests.support.proofs.shares import SHARES, measured, shares_of
from tests.support.proofs.sizes import SCALE, SIZES, Scale, chunks, size

TESTS = Path(__file__).parents[2]


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


def test_records_of_parts_add_up() -> None:
    part = Record("kills, here", "make it", {"kills": 3}, {"disk full": 1}, 1.5, "7")
    other = part._replace(figures={"kills": 4, "lost": 0}, happened=Counter(), seed="8")
    assert together([part, other, Record("", "", {}, {"disk full": 1})]) == [
        Record("", "", {}, {"disk full": 1}),
        Record("kills, here", "make it", {"kills": 7, "lost": 0}, {"disk full": 1}, 3.0, "7, 8"),
    ]


def test_records_are_those_of_the_running_test() -> None:
    assert record.kept == []
    part = Record("kills, here", "make it", {"kills": 3})
    keep(part)
    happened("disk full")
    assert record.kept == [part, Record("", "", {}, {"disk full": 1})]
    record.kept.clear()


def test_file_of_a_run_that_was_killed_is_read(tmp_path: Path) -> None:
    path = tmp_path / "played.jsonl"
    assert played.read(path) == played.Played({}, [])
    path.write_text(
        '{"test": "a", "seconds": 1.0, "records": [["old", "", {}]]}\n'
        '{"must_meet": ["disk full"], "selected": 2}\n'
        '{"test": "a", "seconds": 2.0, "records": [{"proof": "p", "command": "c", "figures": {}}]}\n'
        '{"test": "b", "sec',
        encoding="utf-8",
    )
    found = played.read(path)
    assert found.tests == {"a": 2.0}
    assert found.records == [Record("p", "c", {})]
    assert (found.selected, found.must_meet) == (2, {"disk full"})


def test_shares_are_a_tenth_each_and_leave_nothing_out() -> None:
    many = [f"t.py::test_seeds[{number}]" for number in range(40)]
    few = [f"u.py::test_kills[{kind}]" for kind in "abcde"]
    seconds = {"t.py": 2.0} | dict.fromkeys(few, 60.0)
    found = shares_of([*many, *few], seconds)
    assert found == shares_of([*reversed(many), *few], seconds)
    assert found.keys() == {*many, *few}
    assert Counter(found[one] for one in many) == dict.fromkeys(range(SHARES), 4)
    assert len({found[one] for one in few}) == len(few)


def test_seconds_are_kept_as_a_mean_where_a_file_has_many_tests() -> None:
    many = {f"t.py::test_seeds[{number}]": float(number) for number in range(10)}
    assert measured(many | {"u.py::test_one": 3.0}) == {"t.py": 4.5, "u.py::test_one": 3.0}
    assert shares.seconds_of("t.py::test_seeds[99]", measured(many)) == 4.5
    assert shares.seconds_of("t.py::test_new", {}) == shares.UNKNOWN_S


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


def test_each_rare_thing_is_the_duty_of_a_proof() -> None:
    """A name that no proof must meet would be asked for in no share."""
    duties = [
        ast.unparse(keyword.value)
        for path in TESTS.rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.proof"
        for keyword in node.keywords
    ]
    assert duties.count("SIMULATED") == 1
    named = {name for duty in duties if duty != "SIMULATED" for name in ast.literal_eval(duty)}
    assert {*SIMULATED, *named} == set(MUST_HAPPEN)


def test_every_sized_proof_carries_the_mark() -> None:
    """A test that asks for a size without the mark would be left out of the whole run."""
    for path in TESTS.rglob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        if path != Path(__file__) and ("import size" in text or "chunks" in text):
            asks = "tests.support.proofs.sizes" in text
            assert not asks or "mark.proof" in text, path.relative_to(TESTS)
