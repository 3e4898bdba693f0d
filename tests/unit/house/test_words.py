"""Plain words: in docstrings, in comments and in names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.unit.house.source import TOP, Module, findings, modules

RIDDLES = frozenset(
    {"Of", "By", "Who", "Those", "Whoever", "Whatever", "What", "Where", "How", "Whether"}
)
"""First words that leave the reader to guess the subject."""

# Word in a name → the field's word.
REFUSED = {
    "alike": "canonical",
    "beside": "what it is: presence, a row buffer, …",
    "bell": "notifier",
    "bells": "notifier",
    "born": "created",
    "bury": "add a tombstone",
    "buried": "tombstoned",
    "grave": "tombstone",
    "graves": "tombstones",
    "hand": "what it does",
    "hands": "lease granter",
    "heard": "what was received",
    "hear": "receive",
    "insist": "post until accepted",
    "nursery": "forkserver",
    "teeth": "mutants",
    "told": "what was sent, or known",
}
# What a sentence may not have → what it says instead.
POOR = {
    re.compile(pattern): better
    for pattern, better in {
        r"\banew\b": "again, or what is new",
        r"\bbesides(?=[,.;]|$)": "also, or what else",
        r"\bborn\b": "created",
        r"\b(?:bury|buried|graves?|nursery|teeth)\b": "the field's word",
        r"\bfor ever\b": "without limit, or without end",
        r"\b(?:became|becomes?|came|comes) of\b": "the outcome, or the result",
        r"[Nn]obody knows\b": "is unknown",
        r": so [a-z]": "because, so that, or two sentences",
        r"^(?:Return|Yield)\w* [^.]*; (?:None|False|True|empty): ": "or None, or None if …",
        r"(?:^|[.] )[^.:;]*(?:;[^.:;│]*){3}": "two sentences: there are three semicolons in this one",
    }.items()
}
# How a comment begins, by the end of a file's name.
MARKS = {".lua": "--", ".sql": "--", ".proto": "//", ".ts": "//", ".tsx": "//"}
WRITTEN = ("drivers", "proto", "console/src", "console/tests")
GENERATED = "console/src/gen/"
# Verbs that say too little; a function's name begins with none of them.
VAGUE = {
    "look": "read, check, scan",
    "say": "write, report, format",
    "tell": "notify, resolve, log",
}

TEST_NAME_LENGTH_MAX = 75

_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def words_of(name: str) -> list[str]:
    """Return the words of an identifier, in lower case: `_TheName` and `_the_name` are the same."""
    return [word for word in _CAPITAL.sub("_", name).lower().split("_") if word]


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of modules, classes, functions and variables, with their lines."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if text := ast.get_docstring(node):
            yield node.body[0].lineno, text
        for before, after in pairwise(node.body):
            match before, after:
                case ast.Assign() | ast.AnnAssign(), ast.Expr(ast.Constant(str() as text)):
                    yield after.lineno, text.strip()
                case _:
                    pass


def comments(text: str, mark: str) -> Iterator[tuple[int, str]]:
    """Yield blocks of comments that begin with a mark, with their lines; a mark within a string may be one."""
    block: list[str] = []
    for line, code in enumerate([*text.splitlines(), ""], 1):
        before, found, words = code.partition(mark)
        if block and (before.strip() or not found):
            yield line - len(block), " ".join(block)
            block = []
        if found and before.strip():
            yield line, words.strip()
        elif found:
            block.append(words.strip())


def poor_sentences(texts: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield the texts with something that makes a reader read twice."""
    for line, text in texts:
        for pattern, better in POOR.items():
            if found := pattern.search(" ".join(text.split())):
                yield line, f"{found[0][-40:]!r}; better: {better}"


def riddles(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield docstrings that begin with a word that names no subject: the line, and what is wrong."""
    for line, text in docstrings(tree):
        first = re.split(r"\W", text, maxsplit=1)[0]
        if first in RIDDLES:
            yield line, f'a docstring begins with "{first}"'


def defined_names(tree: ast.Module) -> Iterator[tuple[int, str, bool]]:
    """Yield each name that a module defines: line, name, and whether it is a function's."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.lineno, node.name, True
            case ast.ClassDef():
                yield node.lineno, node.name, False
            case ast.arg():
                yield node.lineno, node.arg, False
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id, False
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr, False
            case _:
                pass


def poor_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield defined names with a refused word or a vague verb, and test names that are too long."""
    for line, name, is_function in defined_names(tree):
        words = words_of(name)
        for word in words:
            if word in REFUSED:
                yield line, f"{name}: not {word!r}; the field's word is {REFUSED[word]}"
        if is_function and words and words[0] in VAGUE:
            yield line, f"{name}: {words[0]!r} is vague; better: {VAGUE[words[0]]}"
        if is_function and words[:1] == ["test"] and len(name) > TEST_NAME_LENGTH_MAX:
            yield line, f"{name}: {len(name)} characters; say the condition and the result"


def poor_words(module: Module) -> Iterator[tuple[int, str]]:
    """Yield every poor word of a module."""
    yield from riddles(module.tree)
    yield from poor_names(module.tree)
    if not module.path.endswith("house/test_words.py"):
        yield from poor_sentences(docstrings(module.tree))
        yield from poor_sentences(comments(module.text, "# "))


def test_words_are_plain() -> None:
    assert findings(poor_words, modules()) == []


@pytest.mark.parametrize("folder", WRITTEN)
def test_comments_of_other_languages_are_plain(folder: str) -> None:
    found = [
        f"{name}:{line}: {wrong}"
        for path in sorted((TOP / folder).rglob("*.*"))
        if (mark := MARKS.get(path.suffix))
        and not (name := path.relative_to(TOP).as_posix()).startswith(GENERATED)
        for line, wrong in poor_sentences(comments(path.read_text(encoding="utf-8"), mark))
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        '"""Of all runs, the newest."""',
        'class A:\n    limit: int = 1\n    """What is due."""',
        'def f(self):\n    self.seen = {}\n    """By name."""',
        "async def _look(): ...",
        "class NotTold: ...",
        "def f(born): ...",
        "def f(self): self.bells = 1",
        f"def test_{'x' * 71}(): ...",
        "x = 1  # It is made anew.",
        '"""Return the run; None: there is none."""',
        "# One; two; three;\n# four.",
    ],
)
def test_poor_word_is_caught(source: str) -> None:
    assert findings(poor_words, [Module("service/a.py", source)])
