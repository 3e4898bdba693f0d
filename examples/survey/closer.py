"""A closer examination of long functions, files that don't parse, and unused modules."""

from __future__ import annotations

import ast
import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from examples.demo.text import some
from examples.survey.measure import Function, Unparsable, parse, read
from examples.survey.tree import all_files

LONG_LINES = 50
"""A function of more lines than this is too long."""
MENTIONS_SHOWN = 3
EXCERPT_CHARS = 100

_BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.IfExp, ast.match_case)
_BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.With, ast.AsyncWith, ast.Match)


@dataclass(frozen=True)
class Remark:
    """The result of one examination."""

    about: str
    where: str
    text: str


def examine_long_function(top: Path, function: Function) -> Remark:
    """Return what makes a function long, and which of its blocks could be a function of its own."""
    where = f"{function.path}:{function.line}"
    about = f"{function.name}, {function.lines} lines"
    node = _find(top, function)
    if node is None:
        return Remark(about, where, "its language is only counted, not parsed")
    branches = sum(isinstance(inner, _BRANCHES) for inner in ast.walk(node))
    arguments = node.args
    parameters = len(arguments.posonlyargs + arguments.args + arguments.kwonlyargs)
    text = f"{some(parameters, 'parameter')}, {some(branches, 'branch', 'branches')}, "
    text += f"{_depth(node)} deep"
    blocks = [inner for inner in ast.walk(node) if isinstance(inner, _BLOCKS)]
    if blocks:
        block = max(blocks, key=_lines)
        kind = type(block).__name__.removeprefix("Async").lower()
        text += f"; its largest block is the `{kind}` of {some(_lines(block), 'line')} "
        text += f"at line {block.lineno}"
    elif not branches:
        text += ": a plain list of statements"
    return Remark(about, where, text)


def examine_unparsable_file(top: Path, found: Unparsable) -> Remark:
    """Return the line that the parser stopped at, and a guess at what the file is instead."""
    data = read(top / found.path) or b""
    lines = data.decode("utf-8", "replace").splitlines()
    excerpt = lines[found.line - 1].strip()[:EXCERPT_CHARS] if 0 < found.line <= len(lines) else ""
    text = f"{found.reason}: `{excerpt}`" if excerpt else found.reason
    if "{{" in excerpt or "{%" in excerpt:
        text += " (a template, it seems)"
    elif "Missing parentheses in call to 'print'" in found.reason:
        text += " (Python 2)"
    elif excerpt.startswith(("<<<<<<<", "=======", ">>>>>>>")):
        text += " (a merge that was never finished)"
    return Remark("doesn't parse", f"{found.path}:{found.line}", text)


def search_mentions(top: Path, module: str, files_max: int) -> Remark:
    """Search all texts for the name of a module that no Python file imports."""
    path = PurePosixPath(module)
    dotted = ".".join([*path.parent.parts[-1:], path.stem])
    needles = [os.fsencode(path.name), *([os.fsencode(dotted)] if "." in dotted else [])]
    found: list[str] = []
    for other in all_files(top, files_max):
        data = None if other == module else read(top / other)
        if data is not None:
            places = [place for place in map(data.find, needles) if place >= 0]
            if places:
                line = data.count(b"\n", 0, min(places)) + 1
                found.append(f"{other}:{line}")
    if not found:
        return Remark("not imported", module, "and nothing else in the tree names it")
    more = f" and {len(found) - MENTIONS_SHOWN} more" if len(found) > MENTIONS_SHOWN else ""
    return Remark("not imported", module, f"but named in {', '.join(found[:MENTIONS_SHOWN])}{more}")


def _find(top: Path, function: Function) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    if not function.path.endswith((".py", ".pyi")):
        return None
    try:
        tree = parse(read(top / function.path) or b"")
    except (SyntaxError, ValueError):
        return None  # It has changed since it was measured.
    for node in ast.walk(tree):
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_function and node.name == function.name and node.lineno == function.line:
            return node
    return None


def _depth(node: ast.AST) -> int:
    """Return how deep blocks are nested; an `elif` is on the level of its `if`."""
    inner = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            is_elif = (
                isinstance(node, ast.If) and isinstance(child, ast.If) and [child] == node.orelse
            )
            inner = max(inner, _depth(child) - is_elif)
    return inner + isinstance(node, _BLOCKS)


def _lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1
