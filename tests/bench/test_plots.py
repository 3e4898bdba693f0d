"""The bench's plots: a file for each work that was measured."""

from __future__ import annotations

from pathlib import Path

from bench.records import Results, Sample
from tests.bench.test_report import MACHINE, results


def test_each_measured_work_is_drawn(tmp_path: Path) -> None:
    from bench import plots

    (drawn,) = plots.draw(results(4_000, 6_000), tmp_path)

    assert drawn.name == "wide.png"
    assert drawn.read_bytes().startswith(b"\x89PNG")


def test_peers_are_drawn(tmp_path: Path) -> None:
    from bench import plots

    figures = {"steps_per_second": 1_000.0, "p50_ms": 1.0, "p99_ms": 2.0}
    samples = (Sample("peers", name, figures, 10.0) for name in ("stepwell:sqlite", "dbos:sqlite"))

    assert plots.draw_peers(Results(MACHINE, tuple(samples)), tmp_path).exists()
