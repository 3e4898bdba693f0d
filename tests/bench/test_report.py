"""The bench's table: goals, ranges, and the comparison with what was kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import records, report
from bench.records import Machine, Results, Sample
from bench.table import Goal, least, most

MACHINE = Machine("2026-01-02 03:04", "abc1234", 2, "a processor", "3.11.7", 0.1, "python -m bench")


def results(*speeds: float, spin_ms: float = 10.0) -> Results:
    """Results of one work on SQLite, a round for each speed."""
    samples = (Sample("wide", "sqlite", {"steps_per_second": one}, spin_ms) for one in speeds)
    return Results(MACHINE, tuple(samples))


def row(now: Results, before: Results | None = None) -> str:
    """Return the table's row of the one work that was measured."""
    (line,) = [line for line in report.table(now, before) if line.startswith("  SQLite")]
    return " ".join(line.split())


def test_row_has_median_range_goal_and_speed_of_the_machine() -> None:
    assert row(results(4_000, 6_000, 5_500)) == (
        "SQLite, speed 5,500 steps/s 4,000 – 6,000 ≥ 5,000 met 10.0"
    )


def test_row_says_that_a_goal_is_missed() -> None:
    assert "≥ 5,000 MISSED" in row(results(4_000, 4_500, 6_000))


def test_row_has_what_was_kept_and_the_speed_of_the_machine_then() -> None:
    assert row(results(5_500), results(2_000, spin_ms=30.0)).endswith("10.0 2,000 30.0")


@pytest.mark.parametrize(
    ("goal", "value", "met"),
    [(least(5), 5, True), (least(5), 4.9, False), (most(5), 5, True), (most(5), 5.1, False)],
)
def test_goal_is_met_up_to_its_bound(goal: Goal, value: float, met: bool) -> None:
    assert goal.met(value) is met


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    records.write(results(1.5, 2.0), tmp_path / "it.json")

    assert records.read(tmp_path / "it.json") == results(1.5, 2.0)


def test_newest_kept_result_is_compared_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "KEPT", tmp_path)
    assert records.newest("bench") is None

    (tmp_path / "bench-2025-12-31-2359.json").touch()
    kept = records.keep(results(1.0), "bench")

    assert kept.name == "bench-2026-01-02-0304.json"
    assert records.newest("bench") == kept
