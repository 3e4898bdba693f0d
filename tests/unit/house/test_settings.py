"""Every setting has a sentence, which the documents show."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from tests.unit.house.source import TOP

CONFIG = TOP / "service" / "stepwell" / "config.py"
BASE = "Group"


def unexplained(tree: ast.Module) -> Iterator[str]:
    """Yield the settings, and groups of them, that no docstring follows; a group may have its own instead."""
    groups = {
        node.name: node
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        and any(isinstance(base, ast.Name) and base.id == BASE for base in node.bases)
    }
    for group in groups.values():
        if ast.get_docstring(group) is None:
            yield group.name
        for field, after in pairwise([*group.body, ast.Pass()]):
            if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
                continue
            if isinstance(field.annotation, ast.Name) and field.annotation.id in groups:
                continue
            match after:
                case ast.Expr(ast.Constant(str())):
                    pass
                case _:
                    yield f"{group.name}.{field.target.id}"


def test_every_setting_has_a_sentence() -> None:
    assert list(unexplained(ast.parse(CONFIG.read_text(encoding="utf-8")))) == []


def test_setting_without_a_sentence_is_reported() -> None:
    text = '''
class Inner(Group):
    """A group."""

    plain: int = 0
    said: int = 0
    """A number; 0: none."""


class Outer(Group):
    inner: Inner = Inner()
'''

    assert list(unexplained(ast.parse(text))) == ["Inner.plain", "Outer"]
