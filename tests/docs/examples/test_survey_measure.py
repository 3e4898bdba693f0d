"""The measuring functions of the survey example: what they count, and what they pass over."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.survey.closer import examine_unparsable_file
from examples.survey.measure import (
    LONGEST_KEPT,
    NAMES_BYTES_MAX,
    Function,
    Language,
    Measures,
    Unparsable,
    combine,
    measure_file,
)
from examples.survey.tree import all_files, deal, files_of
from stepwell_client import encode
from tests.unit.house.source import write_tree

EVERYTHING = 10_000


def survey(top: Path) -> Measures:
    return combine(measure_file(top, path) for path in all_files(top, EVERYTHING))


# One file.


def test_python_is_parsed(tmp_path: Path) -> None:
    source = "import os\n\n\ndef f():\n    def g():\n        pass\n\n\nclass A:\n    async def h(self): ...\n"
    write_tree(tmp_path, {"a.py": source})

    found = measure_file(tmp_path, "a.py")

    assert found.languages == {"Python": Language(files=1, lines=10, functions=3)}
    assert found.longest == [
        Function("f", "a.py", 4, 3),
        Function("g", "a.py", 5, 2),
        Function("h", "a.py", 10, 1),
    ]
    assert found.imports == ["os"]


@pytest.mark.parametrize(
    ("name", "text", "line", "reason"),
    [
        ("a.py", "x = 1\ndef f(:\n", 2, "invalid syntax"),
        ("a.py", "print 'x'\n", 1, "Missing parentheses"),
        ("a.py", "# coding: klingon\n", 1, "klingon"),
        ("a.json", '{"a": 1,\n}', 2, "Expecting property name"),
        ("a.toml", "a = \n", 1, "Invalid value"),
    ],
)
def test_syntax_error_is_reported_with_its_place(
    tmp_path: Path, name: str, text: str, line: int, reason: str
) -> None:
    write_tree(tmp_path, {name: text})

    found = measure_file(tmp_path, name)

    assert (found.files, found.unparsable_count) == (1, 1)
    assert found.unparsable[0].line == line
    assert reason in found.unparsable[0].reason


# Together.


def test_the_grouping_of_parts_changes_nothing(tmp_path: Path) -> None:
    write_tree(tmp_path, {f"m{n}.py": f"def f{n}():\n" + "    x = 1\n" * n for n in range(1, 20)})
    files = [measure_file(tmp_path, path) for path in all_files(tmp_path, EVERYTHING)]

    whole = combine(files)

    assert combine([combine(files[:7]), combine(files[7:])]) == whole
    assert [function.lines for function in whole.longest] == list(range(20, 20 - LONGEST_KEPT, -1))


def test_a_result_keeps_below_the_limit_of_a_payload() -> None:
    names = [f"{n:06}{'é' * 50}" for n in range(20_000)]
    whole = combine([Measures(modules=names, imports=names)])
    payload = encode(whole)

    assert whole.names_cut
    assert payload is not None
    assert len(payload.data) < 2 * NAMES_BYTES_MAX + 10_000


# The tree.


def test_every_file_is_in_exactly_one_part(tmp_path: Path) -> None:
    tree = [f"{folder}/{n}.py" for folder in ("a", "b/c", "b/d", "b/d/e") for n in range(9)]
    write_tree(tmp_path, dict.fromkeys([*tree, "top.py"], "x"))

    dealt = deal(tmp_path, parts_wanted=12, files_max=EVERYTHING)

    assert len(dealt.parts) >= 12
    assert sorted(path for part in dealt.parts for path in files_of(tmp_path, part)) == sorted(
        [*tree, "top.py"]
    )


# The closer look, and the page.


def test_the_line_that_does_not_parse_is_shown(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.py": "x = 1\nname = {{ name }\n"})

    remark = examine_unparsable_file(tmp_path, Unparsable("a.py", 2, "invalid syntax"))

    assert remark.text == "invalid syntax: `name = {{ name }` (a template, it seems)"
