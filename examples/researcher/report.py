"""The report: a Markdown page, added to a file of reports, with the key of the call that wrote it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from examples.researcher.models import Answer


def render(goal: str, quotes: Mapping[str, Sequence[str]], ending: Answer | None) -> str:
    """Return the page. `ending` has the model's title and the best of the quotes; None: there are no quotes."""
    blocks = [f"# {goal}"]
    if ending is not None:
        blocks += [f"> {ending.data['best']}"]
        blocks += [f"*{ending.data['title']}* (a title by the model {ending.model})"]
    for name, found in quotes.items():
        blocks += [f"## {name}", "\n".join(f"- {one}" for one in found) or "Nothing to quote."]
    return "\n\n".join(blocks) + "\n"


def add_report(path: str, key: str, page: str) -> str:
    """Add a page to the file, and return it. Done twice, it stands there twice."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(f"{page}\n<!-- written by {key} -->\n\n")
    return page


def count_reports(path: str, key: str) -> int:
    """Count the reports in the file that a call wrote. `key`: its key, or the end of it."""
    file = Path(path)
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return sum(
        line.startswith("<!-- written by ") and line.endswith(f"{key} -->") for line in lines
    )
