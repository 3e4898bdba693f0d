"""No part of a proof is left out: sizes by scale, chunks, shares, and the mark that asks for them."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from tests.support.proofs import sizes
from tests.support.proofs.must_happen import MUST_HAPPEN, SIMULATED
from tests.support.proofs.shares import SHARES, shares_of
from tests.support.proofs.sizes import SCALE, SIZES, Scale, chunks, size
from tests.unit.house.source import modules


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


def test_shares_are_a_tenth_each_and_leave_nothing_out() -> None:
    many = [f"t.py::test_seeds[{number}]" for number in range(40)]
    few = [f"u.py::test_kills[{kind}]" for kind in "abcde"]
    seconds = {"t.py": 2.0} | dict.fromkeys(few, 60.0)
    found = shares_of([*many, *few], seconds)
    assert found == shares_of([*reversed(many), *few], seconds)
    assert found.keys() == {*many, *few}
    assert Counter(found[one] for one in many) == dict.fromkeys(range(SHARES), 4)
    assert len({found[one] for one in few}) == len(few)


TESTS = [module for module in modules() if module.path.startswith("tests/")]


def test_each_rare_thing_is_the_duty_of_a_proof() -> None:
    """A name that no proof must meet would be asked for in no share."""
    duties = [
        ast.unparse(keyword.value)
        for module in TESTS
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.proof"
        for keyword in node.keywords
    ]
    assert duties.count("SIMULATED") == 1
    named = {name for duty in duties if duty != "SIMULATED" for name in ast.literal_eval(duty)}
    assert {*SIMULATED, *named} == set(MUST_HAPPEN)


def test_every_sized_proof_carries_the_mark() -> None:
    """A test that asks for a size without the mark would be left out of the whole run."""
    for path, text in ((module.path, module.text) for module in TESTS):
        asks = "tests.support.proofs.sizes" in text and ("import size" in text or "chunks" in text)
        if asks and "/test_" in path and not path.endswith("house/test_proofs.py"):
            assert "mark.proof" in text, path
