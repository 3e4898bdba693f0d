"""Draws docs/pictures/loop.svg from the moves of the loop; called by scripts/diagrams.py.

A site of the documents loads nothing from elsewhere, so a diagram is a picture of our own.
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

from stepwell.core.loop import table
from stepwell.core.records import states

LOOP = Path(__file__).resolve().parent.parent / "docs" / "pictures" / "loop.svg"

WIDTH, BOX, HIGH, GAP = 900, 150, 40, 100
MIDDLE, TOP = 440, 20
STYLE = (
    "<style>text{font:14px sans-serif;fill:#1b1b1b}.box{fill:#d7efec;stroke:#00796b}"
    ".name{font-weight:bold;text-anchor:middle}.way{fill:none;stroke:#455a64;stroke-width:1.5;marker-end:url(#end)}"
    ".left{text-anchor:end}</style>"
    '<marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0 0 8 4 0 8z" fill="#455a64"/></marker>'
)


def loop() -> str:
    """Return the picture: the phases from top to bottom, a way for each move, with what leads to it."""
    phases = list(states.Phase)
    tops = {phase: TOP + place * (HIGH + GAP) for place, phase in enumerate(phases)}
    parts = [_box(phase, top) for phase, top in tops.items()]
    for (before, why), after in table.PHASE_MOVES.items():
        rows = phases.index(after) - phases.index(before)
        if rows == 1:
            y = tops[before] + HIGH
            parts.append(f'<path class="way" d="M{MIDDLE} {y}V{y + GAP}"/>')
            parts.append(f'<text x="{MIDDLE + 10}" y="{y + GAP // 2 + 5}">{escape(why)}</text>')
        else:
            parts.append(_detour(rows, tops[before], tops[after], why))
    height = tops[phases[-1]] + HIGH + TOP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
        f"<title>The phases of a run</title>{STYLE}"
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _box(phase: states.Phase, top: int) -> str:
    return (
        f'<rect class="box" x="{MIDDLE - BOX // 2}" y="{top}" width="{BOX}" height="{HIGH}" rx="6"/>'
        f'<text class="name" x="{MIDDLE}" y="{top + 25}">{phase}</text>'
    )


def _detour(rows: int, start: int, end: int, why: str) -> str:
    """Return a way beside the boxes: back up at their left, further down at their right."""
    sign = 1 if rows > 0 else -1
    edge = MIDDLE + sign * BOX // 2
    away = edge + sign * (280 if rows > 0 else 60 if rows == -1 else 230)
    leave, reach = start + HIGH - 12, end + 12
    way = f'<path class="way" d="M{edge} {leave}H{away}V{reach}H{edge}"/>'
    if rows > 0:
        return f'{way}<text x="{edge + 10}" y="{leave - 6}">{escape(why)}</text>'
    return f'{way}<text class="left" x="{away - 8}" y="{(leave + reach) // 2}">{escape(why)}</text>'
