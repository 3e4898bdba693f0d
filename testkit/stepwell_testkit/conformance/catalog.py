"""The cases that test each sentence of the port, and each invariant.

A case quotes its sentences, `@promises("commit", "A commit that was refused left nothing behind and
never will.")`, and has its invariants in its name: `test_S4_…`. The catalog compares the quotations
with the port's docstrings and finds sentences without a case and quotations without a sentence.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from stepwell.core import port

F = TypeVar("F", bound=Callable[..., object])

STORE_INVARIANTS = (
    *("S1", "S2", "S3", "S4", "S5", "S7", "S8", "S9", "S10", "E1", "E3", "E4", "E8", "L5"),
    *("C1", "C2", "C3", "D2", "T1", "T2", "T3", "T4", "R1", "K1", "J1", "J2", "J4"),
)
"""The service's invariants that a store alone can keep or break."""

_OTHER_PORTS = {
    "WorkerPort",
    "AssignedRun",
    "Assignment",
    "DependencyResult",
    "HeldEntry",
    "JournalPage",
    "Principal",
    "Authenticator",
    "Runtime",
}
_INVARIANT = re.compile(r"(?<=_)([SELCDTRKJ]\d+)(?=_)")
_SENTENCE_END = re.compile(r"(?<=[.:])\n{2}|(?<=\.)\s+(?=[A-Z`\"*])")


class Promise(NamedTuple):
    """A case's claim to test a sentence of a docstring."""

    case: str
    target: str
    """A method (`commit`), record (`Commit`), field (`Lease.lease_ms`) or paragraph (`Time`)."""
    words: str


PROMISES: list[Promise] = []
"""All claims, in the order in which the cases were read."""


def promises(target: str, *quotations: str) -> Callable[[F], F]:
    """Name the sentences of the port that a case tests; a part of a sentence is enough."""

    def claim(case: F) -> F:
        name = getattr(case, "__name__", "")
        PROMISES.extend(Promise(name, target, words) for words in quotations or ("",))
        return case

    return claim


def invariants_of(case: str) -> list[str]:
    """Return the invariants in a case's name: S4 of `test_S4_a_commit_sent_again`."""
    return _INVARIANT.findall(case)


def docstrings() -> dict[str, str]:
    """Return every docstring of the store's port, by the name of its target."""
    tree = ast.parse(inspect.getsource(port))
    found = dict(_paragraphs(ast.get_docstring(tree) or ""))
    for node in tree.body:
        if not isinstance(node, ast.ClassDef) or node.name in _OTHER_PORTS:
            continue
        if node.name == "Store":
            found.update(_methods(node))
        else:
            found[node.name] = ast.get_docstring(node) or ""
            found.update(_fields(node))
    return {target: text for target, text in found.items() if text}


def sentences(text: str) -> list[str]:
    """Return the sentences of a docstring, each on one line."""
    text = re.sub(r"\n\n(Raises|Returns):\n", "\n\n", text)
    return [" ".join(part.split()) for part in _SENTENCE_END.split(text) if part.strip()]


def unclaimed() -> list[str]:
    """Return the sentences of the port that no case tests."""
    claimed: dict[str, list[str]] = {}
    for promise in PROMISES:
        claimed.setdefault(promise.target, []).append(" ".join(promise.words.split()))
    return [
        f"{target}: {sentence}"
        for target, text in docstrings().items()
        # A record's first sentence describes it; the others are promises.
        for sentence in sentences(text)[1 if hasattr(port, target) else 0 :]
        if not any(words in sentence for words in claimed.get(target, ()))
    ]


def misquoted() -> list[str]:
    """Return the claims whose words are in no docstring, because the contract has changed."""
    kept = {target: sentences(text) for target, text in docstrings().items()}
    return [
        f"{promise.case}: {promise.target}: {promise.words}"
        for promise in PROMISES
        if not any(" ".join(promise.words.split()) in it for it in kept.get(promise.target, ()))
    ]


def uncovered(cases: Iterable[str]) -> list[str]:
    """Return the invariants that a store can keep or break and that no case names."""
    named = {invariant for case in cases for invariant in invariants_of(case)}
    return [invariant for invariant in STORE_INVARIANTS if invariant not in named]


def _paragraphs(text: str) -> Iterator[tuple[str, str]]:
    for paragraph in text.split("\n\n"):
        heading = re.match(r"\*\*(\w+)\.\*\* ", paragraph)
        if heading:
            yield heading[1], paragraph[heading.end() :]


def _methods(store: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for node in store.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, ast.get_docstring(node) or ""


def _fields(record: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """Return the docstrings of fields."""
    for field, below in zip(record.body, record.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
            and isinstance(below.value.value, str)
        ):
            yield f"{record.name}.{field.target.id}", below.value.value
