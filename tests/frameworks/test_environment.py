"""The frameworks' environment: each package that an extra promises is there, beside the tests' own."""

from __future__ import annotations

from importlib import import_module

import pytest


@pytest.mark.parametrize("name", ["agents", "langgraph.graph", "mcp", "pydantic_ai"])
def test_package_of_each_extra_is_imported_without_a_warning(name: str) -> None:
    assert import_module(name)
