"""The table of peers: ratios are of figures of one and the same round."""

from __future__ import annotations

from bench.peers import report
from bench.peers.runs import turns
from bench.records import Results, Sample
from tests.bench.test_report import MACHINE


def measured(**speeds: tuple[float, ...]) -> Results:
    """Results of Stepwell and of peers on SQLite, a round for each speed."""
    samples = (
        Sample(
            "peers",
            f"{name}:sqlite",
            {"steps_per_second": one, "p50_ms": 1_000 / one, "p99_ms": 9},
            10.0,
        )
        for name, own in speeds.items()
        for one in own
    )
    return Results(MACHINE, tuple(samples))


def test_ratio_is_the_median_over_the_rounds() -> None:
    rows = list(report.rows(measured(dbos=(100, 300, 100), stepwell=(1_000, 600, 1_200))))

    assert [row.name for row in rows] == ["Stepwell, SQLite", "DBOS Transact, SQLite"]
    assert rows[0].faster is None
    assert rows[1].faster == 10
    assert rows[1].sooner == 10


def test_ratio_has_its_goal() -> None:
    lines = list(report.table(measured(stepwell=(500,), langgraph=(100,))))

    assert "5.00 ×" in lines[-1]
    assert lines[-1].endswith("≥ 6 MISSED")


def test_each_round_begins_with_another() -> None:
    assert [turns(number, ["a", "b", "c"]) for number in range(2)] == [
        ["a", "b", "c"],
        ["b", "c", "a"],
    ]
