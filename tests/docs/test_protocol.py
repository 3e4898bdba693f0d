"""The documents list the errors and methods that the code has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from stepwell.rpc import scopes, status
from stepwell_client import StepwellClientError
from stepwell_client import errors as client_errors
from tests.docs.pages import TOP

PAGE = (TOP / "docs" / "protocol.md").read_text(encoding="utf-8")
ERRORS = (TOP / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
_SERVED = (
    "service/stepwell/core",
    "service/stepwell/app",
    "service/stepwell/engine",
    "service/stepwell/watch",
    "service/stepwell/rpc",
    "service/stepwell/console",
    "drivers/stepwell_drivers",
)
_WORD = re.compile(r"[A-Z]+(_[A-Z]+)*")

# Words that stand where reasons stand in the code and reach no caller of this version.
_INNER = {
    "NOT_FOUND": "the base of RUN_NOT_FOUND",
    "FAILED_PRECONDITION": "the base of those that say what",
    "STORE_ERROR": "the base of those that say what",
    "NOT_READY": "the loop's answer to a lease that came too late; no RPC asks for one",
    "QUESTION_NOT_OPEN": "the loop's answer; the caller is told what became of the request",
}


def _reasons() -> Iterator[tuple[str, str]]:
    """Yield every reason that the code names, and where."""
    paths = [path for folder in _SERVED for path in (TOP / folder).rglob("*.py")]
    for path in [*paths, *(TOP / "service/stepwell").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            found = _reason(node)
            if isinstance(found, ast.Constant) and _WORD.fullmatch(str(found.value)):
                yield str(found.value), f"{path.relative_to(TOP)}:{found.lineno}"


def _reason(node: ast.AST) -> ast.expr | None:
    match node:
        case ast.Assign(targets=[ast.Name(id="reason")]) | ast.keyword(arg="reason"):
            return node.value
        case ast.Call(func=ast.Name(id="refused"), args=[first, *_]):
            return first
    return None


def test_every_reason_that_the_code_gives_is_explained() -> None:
    missing = {
        where: reason
        for reason, where in _reasons()
        if f"`{reason}`" not in ERRORS and reason not in _INNER
    }
    assert not missing, "docs/reference/errors.md does not explain them"


def test_every_reason_that_is_explained_is_given() -> None:
    section = ERRORS.partition("## Of calls")[2].partition("## Kinds of failure")[0]
    table = [line.split("|") for line in section.splitlines() if line.startswith("|")]
    explained = {word for row in table[2:] for word in re.findall(r"`([A-Z_]+)`", row[2])}
    given = {reason for reason, _ in _reasons()}
    assert explained
    assert explained <= given


def test_every_error_says_what_to_do() -> None:
    rows = [line.strip("|").split(" | ") for line in ERRORS.splitlines() if line.startswith("|")]
    assert rows
    assert [row for row in rows if not row[-1].strip(" |")] == []


def test_every_error_of_the_python_library_is_explained() -> None:
    errors = [one for one in vars(client_errors).values() if isinstance(one, type)]
    reasons = {one.reason for one in errors if issubclass(one, StepwellClientError)}
    assert len(reasons) > 10
    assert {reason for reason in reasons if f"`{reason}`" not in ERRORS} == set()


@pytest.mark.parametrize("code", sorted({code.name for code in status.CODES.values()}))
def test_every_status_code_that_is_given_is_explained(code: str) -> None:
    assert f"| `{code}` |" in ERRORS


def test_every_method_that_is_served_is_listed() -> None:
    for method in scopes.SCOPES:
        _, service, name = method.split("/")
        assert service in PAGE
        assert f"`{name}`" in PAGE or scopes.SCOPES[method] == scopes.STORE
