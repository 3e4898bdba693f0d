"""The measuring functions of the survey example: what they count, and what they pass over."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from examples.survey.closer import look_at_long, look_at_unparsable, look_for_mentions
from examples.survey.measure import (
    FILE_BYTES_MAX,
    LONGEST_KEPT,
    NAMES_BYTES_MAX,
    Function,
    Language,
    Measures,
    Unparsable,
    combine,
    measure_file,
    unimported,
)
from examples.survey.report import render
from examples.survey.tree import Part, all_files, deal, files_of
from stepwell_client import decode, encode
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
def test_what_does_not_parse_says_where_and_why(
    tmp_path: Path, name: str, text: str, line: int, reason: str
) -> None:
    write_tree(tmp_path, {name: text})

    found = measure_file(tmp_path, name)

    assert (found.files, found.unparsable_count) == (1, 1)
    assert found.unparsable[0].line == line
    assert reason in found.unparsable[0].reason


@pytest.mark.parametrize(
    ("name", "text", "functions"),
    [
        ("a.go", "func (s *S) Run(x int) {\n\tx++\n}\n\nfunc One() {}\n", [("Run", 1, 3)]),
        ("a.js", "export async function go(a) {\n  b()\n}\nconst f = (x) => {\n  x\n}\n", []),
        ("a.c", "int f(void)\n{\n  if (x) {\n    g();\n  }\n}\n", [("f", 1, 6)]),
        ("a.rs", "pub async fn go<T>(\n    x: T,\n) -> T {\n    x\n}\n", [("go", 1, 5)]),
        ("a.sh", "go() {\n  ls\n}\n", [("go", 1, 3)]),
        ("a.rb", "def go?\n  1\nend\n", [("go?", 1, 3)]),
        ("a.md", "def go():\n", []),
    ],
)
def test_other_languages_are_counted_by_lines(
    tmp_path: Path, name: str, text: str, functions: list[tuple[str, int, int]]
) -> None:
    write_tree(tmp_path, {name: text})

    found = {(f.name, f.line, f.lines) for f in measure_file(tmp_path, name).longest}

    assert found >= set(functions)
    assert len(found) == {"a.go": 2, "a.js": 2}.get(name, len(functions))


def test_binary_large_and_absent_files_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"x = 1\0")
    (tmp_path / "b.py").write_bytes(b"#" * (FILE_BYTES_MAX + 1))

    assert [measure_file(tmp_path, name).skipped for name in ("a.py", "b.py", "c.py")] == [1, 1, 1]


def test_an_empty_file_is_a_file_without_lines(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.py": ""})

    assert measure_file(tmp_path, "a.py").languages == {"Python": Language(files=1)}


def test_deep_nesting_is_a_finding_and_no_crash(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.py": "x = " + "(" * 5_000, "a.json": "[" * 100_000})

    assert survey(tmp_path).unparsable_count == 2


# Together.


def test_the_grouping_of_parts_changes_nothing(tmp_path: Path) -> None:
    write_tree(tmp_path, {f"m{n}.py": f"def f{n}():\n" + "    x = 1\n" * n for n in range(1, 20)})
    files = [measure_file(tmp_path, path) for path in all_files(tmp_path, EVERYTHING)]

    whole = combine(files)

    assert combine([combine(files[:7]), combine(files[7:])]) == whole
    assert [function.lines for function in whole.longest] == list(range(20, 20 - LONGEST_KEPT, -1))


def test_measures_come_back_from_the_store_as_they_were(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.py": "import os\ndef f(): ...\n", "b.py": "def ("})
    whole = survey(tmp_path)

    assert decode(encode(whole), Measures) == whole


def test_a_result_keeps_below_the_limit_of_a_payload() -> None:
    names = [f"{n:06}{'é' * 50}" for n in range(20_000)]
    whole = combine([Measures(modules=names, imports=names)])
    payload = encode(whole)

    assert whole.names_cut
    assert payload is not None
    assert len(payload.data) < 2 * NAMES_BYTES_MAX + 10_000


def test_modules_that_nothing_imports_are_found(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "src/app/__init__.py": "",
            "src/app/used.py": "from . import sibling",
            "src/app/sibling.py": "",
            "src/app/alone.py": "",
            "src/app/script.py": 'if __name__ == "__main__":\n    pass\n',
            "tests/test_it.py": "import app.used\nfrom app import nothing",
        },
    )

    assert unimported(tmp_path, survey(tmp_path)) == ["src/app/alone.py"]


def test_modules_of_a_package_are_known_though_the_survey_begins_within_it(tmp_path: Path) -> None:
    write_tree(tmp_path, {"app/used.py": "", "app/alone.py": "import app.used"})
    top = tmp_path / "app"

    assert unimported(top, survey(top)) == ["alone.py"]


# The tree.


def test_hidden_generated_and_linked_files_are_passed_over(tmp_path: Path) -> None:
    tree = [
        "a.py",
        ".git/b.py",
        "__pycache__/c.py",
        "node_modules/d.js",
        "env/pyvenv.cfg",
        "x/e.py",
    ]
    write_tree(tmp_path, dict.fromkeys(tree, "x"))
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "link.py").symlink_to(tmp_path / "a.py")
    os.mkfifo(tmp_path / "pipe.py")

    assert list(all_files(tmp_path, EVERYTHING)) == ["a.py", "x/e.py"]


def test_every_file_is_in_exactly_one_part(tmp_path: Path) -> None:
    tree = [f"{folder}/{n}.py" for folder in ("a", "b/c", "b/d", "b/d/e") for n in range(9)]
    write_tree(tmp_path, dict.fromkeys([*tree, "top.py"], "x"))

    dealt = deal(tmp_path, parts_wanted=12, files_max=EVERYTHING)

    assert len(dealt.parts) >= 12
    assert sorted(path for part in dealt.parts for path in files_of(tmp_path, part)) == sorted(
        [*tree, "top.py"]
    )


def test_large_folders_are_split_first_and_by_folder(tmp_path: Path) -> None:
    tree = [f"big/{folder}/{n}.py" for folder in "xyz" for n in range(5)]
    write_tree(tmp_path, dict.fromkeys([*tree, "small/a.py"], "x"))

    dealt = deal(tmp_path, parts_wanted=4, files_max=EVERYTHING)

    assert [part.title for part in dealt.parts] == ["big/x", "big/y", "big/z", "small"]


def test_a_folder_of_many_files_is_split_by_their_numbers(tmp_path: Path) -> None:
    write_tree(tmp_path, {f"{n:03}.py": "" for n in range(100)})

    dealt = deal(tmp_path, parts_wanted=2, files_max=EVERYTHING)

    assert [part.title for part in dealt.parts] == [". (files 1–50)", ". (files 51–100)"]


def test_a_tree_beyond_the_bound_is_cut_and_says_so(tmp_path: Path) -> None:
    write_tree(tmp_path, {f"{folder}/{n}.py": "" for folder in "abc" for n in range(10)})

    dealt = deal(tmp_path, parts_wanted=2, files_max=15)

    assert (dealt.files, dealt.is_cut) == (15, True)
    assert sum(len(list(files_of(tmp_path, part))) for part in dealt.parts) == 15


def test_an_empty_tree_has_no_parts(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()

    assert deal(tmp_path, parts_wanted=12, files_max=EVERYTHING).parts == []


def test_a_part_that_went_away_has_no_files(tmp_path: Path) -> None:
    assert list(files_of(tmp_path, Part("gone", deep=True, first=1, last=3))) == []


# The closer look, and the page.


def test_a_long_function_is_told_apart(tmp_path: Path) -> None:
    body = "    for x in y:\n        if x:\n            pass\n        elif y:\n            pass\n"
    write_tree(tmp_path, {"a.py": f"def f(a, *, b):\n{body}", "b.go": "func F() {\n}\n"})

    remark = look_at_long(tmp_path, Function("f", "a.py", 1, 6))

    assert remark.text == (
        "2 parameters, 3 branches, 2 deep; its largest block is the `for` of 5 lines at line 2"
    )
    assert "not parsed" in look_at_long(tmp_path, Function("F", "b.go", 1, 2)).text


def test_the_line_that_does_not_parse_is_shown(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.py": "x = 1\nname = {{ name }\n"})

    remark = look_at_unparsable(tmp_path, Unparsable("a.py", 2, "invalid syntax"))

    assert remark.text == "invalid syntax: `name = {{ name }` (a template, it seems)"


def test_mentions_of_a_module_are_found_in_any_text(tmp_path: Path) -> None:
    tree = {"app/x.py": "", "app/y.py": "", "conf.toml": '\nrun = "app.x:main"'}
    write_tree(tmp_path, tree)

    assert look_for_mentions(tmp_path, "app/x.py", EVERYTHING).text == "but named in conf.toml:2"
    assert "nothing else" in look_for_mentions(tmp_path, "app/y.py", EVERYTHING).text


def test_odd_names_survive_the_whole_way(tmp_path: Path) -> None:
    odd = "new\nline|<b>\udcff.py"
    (tmp_path / odd).write_text("def f(:", encoding="utf-8")
    whole = decode(encode(survey(tmp_path)), Measures)

    remark = look_at_unparsable(tmp_path, whole.unparsable[0])
    page = render("a|b", whole, [remark, look_for_mentions(tmp_path, odd, 9)], ["a note"])

    assert "new�line\\|&lt;b>\\udcff.py:1" in page
    assert page.encode()
