"""The survey as a Markdown page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from examples.demo.text import plain, some
from examples.survey.closer import Remark
from examples.survey.measure import Measures

LANGUAGES_SHOWN = 15


def render(name: str, whole: Measures, remarks: Sequence[Remark], notes: Sequence[str]) -> str:
    """Return the page."""
    ranked = sorted(whole.languages.items(), key=lambda item: -item[1].lines)
    languages = [
        (language, f"{found.files:,}", f"{found.lines:,}", f"{found.functions:,}")
        for language, found in ranked[:LANGUAGES_SHOWN]
    ]
    longest = [
        (f"{function.lines:,}", function.name, f"{function.path}:{function.line}")
        for function in whole.longest
    ]
    looks = [(remark.where, remark.about, remark.text) for remark in remarks]
    summary = (
        f"{some(whole.files, 'file')}, {some(whole.lines, 'line')}, "
        f"{some(whole.functions, 'function')}. Unparsable: {whole.unparsable_count:,}. "
        f"Skipped as binary, over a megabyte or not to be read: {whole.skipped:,}."
    )
    blocks = [
        f"# Survey of {_cell(name)}",
        summary,
        *(f"*{_cell(note)}*" for note in notes),
        "## Languages",
        _table(("language", "files", "lines", "functions"), languages, right=(1, 2, 3)),
        "## Longest functions",
        _table(("lines", "function", "where"), longest, right=(0,)) if longest else "None.",
        "## A closer look",
        _table(("where", "what", "found"), looks) if looks else "Nothing stood out.",
    ]
    return "\n\n".join(blocks) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> str:
    rule = ["---:" if place in right else "---" for place in range(len(head))]
    lines = [head, rule, *([_cell(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    return plain(text, 1_000).replace("|", "\\|").replace("<", "&lt;")
