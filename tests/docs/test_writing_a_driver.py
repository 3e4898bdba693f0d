"""The page shows the driver as it is, and its commands do what it says."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

import pytest

from stepwell_testkit.conformance.groups import GROUPS, OPTIONAL
from tests.docs.pages import TOP, blocks
from tests.docs.shell import Shell

PAGE = TOP / "docs" / "writing-a-driver.md"
PACKAGE = TOP / "tests" / "contract" / "third_party" / "stepwell-journal"
FILES = [
    path
    for path in sorted(PACKAGE.rglob("*"))
    if path.suffix in {".py", ".toml"} and "__pycache__" not in path.parts
]
COMMANDS = [line for block in blocks(PAGE, "sh") for line in block.text.splitlines()]


def _pieces(language: str) -> Iterator[tuple[int, str]]:
    """Yield what each block is made of: definitions that may stand apart in their file."""
    for block in blocks(PAGE, language):
        for piece in re.split(r"\n\n(?=def |async def |class |@)", block.text):
            yield block.line, piece.rstrip("\n")


@pytest.mark.parametrize("language", ["python", "toml"])
def test_the_code_on_the_page_is_that_of_the_driver(language: str) -> None:
    texts = [path.read_text(encoding="utf-8") for path in FILES]
    pieces = list(_pieces(language))
    assert pieces
    for line, piece in pieces:
        # A method is shown without the indentation of its class.
        shown = [piece + "\n", indent(piece, "    ") + "\n"]
        assert any(each in text for text in texts for each in shown), f"{PAGE.name}:{line}\n{piece}"


def test_optional_groups_are_listed_as_they_are() -> None:
    page = PAGE.read_text(encoding="utf-8")
    rows = [f"| `{name}` | {GROUPS[name].without} |" for name in OPTIONAL]
    assert "\n".join(["| group | without it |", "| --- | --- |", *rows, ""]) in page


def test_the_counts_that_are_shown_add_up() -> None:
    (shown,) = blocks(PAGE, "text")
    cases, passed, skipped = map(int, re.findall(r"\d+", shown.text.splitlines()[0]))
    groups = re.findall(r" (\w+) (\d+)(?: of (\d+))?(?=,|$)", shown.text, re.MULTILINE)
    played = {name: int(of or ok) for name, ok, of in groups}
    assert played.keys() == GROUPS.keys()
    assert sum(played.values()) == cases == passed + skipped
    assert sum(int(ok) for _, ok, _ in groups) == passed
    excused = re.findall(r"excused: \w+ \(group, (\d+) cases\)", shown.text)
    assert sum(map(int, excused)) == skipped


def _without_numbers(text: str) -> list[str]:
    return [re.sub(r"\d+( of \d+)?", "N", line.rstrip()) for line in text.splitlines()]


@pytest.mark.timeout(300)
def test_the_commands_install_the_driver_hold_it_to_the_suite_and_serve_it(tmp_path: Path) -> None:
    shutil.copytree(
        PACKAGE, tmp_path / "stepwell-journal", ignore=shutil.ignore_patterns("__pycache__")
    )
    install, test, serve = COMMANDS
    assert install.startswith("pip ")
    with Shell(tmp_path) as shell:
        # Into a folder of its own, and from nowhere but this tree.
        shell.environment |= {
            "PIP_TARGET": str(tmp_path / "installed"),
            "PIP_NO_DEPS": "1",
            "PIP_NO_INDEX": "1",
            "PIP_NO_BUILD_ISOLATION": "0",  # pip's way to say "without isolation"
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PYTHONPATH": str(tmp_path / "installed"),
        }
        for name in [name for name in shell.environment if name.startswith("PYTEST_")]:
            del shell.environment[name]
        # No index is asked, so what the extra names comes from this tree, built as a release would be.
        for command in (f"pip install {TOP / 'testkit'}", install):
            installed = shell.run(command)
            assert installed.returncode == 0, installed.stdout + installed.stderr
        assert (tmp_path / "installed" / "stepwell_testkit" / "py.typed").is_file()
        process = shell.start(test)
        assert process.wait(240) == 0, shell.said(process)
        (shown,) = blocks(PAGE, "text")
        said = _without_numbers(shell.said(process))
        assert [line for line in _without_numbers(shown.text) if line not in said] == []
        counted = re.search(
            r"^journal: (\d+) cases: (\d+) passed, ", shell.said(process), re.MULTILINE
        )
        assert counted is not None
        assert int(counted[2]) >= 200
        server = shell.serve(serve.replace("$PWD", str(tmp_path)))
        assert "journal" in shell.said(server)
        assert "POWER" in shell.said(server)
