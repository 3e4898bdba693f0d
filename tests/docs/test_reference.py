"""The reference of the Python packages has every public name, once."""

from __future__ import annotations

import re
from types import ModuleType

import pytest

import stepwell.embedded
import stepwell_client
import stepwell_testkit.environment
from tests.docs.pages import TOP

TEXT = (TOP / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
MODULES = (stepwell_client, stepwell.embedded, stepwell_testkit.environment)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_public_name_stands_once_in_the_reference(module: ModuleType) -> None:
    shown = re.findall(rf"^::: {re.escape(module.__name__)}\.(\w+)$", TEXT, re.MULTILINE)
    assert sorted(shown) == sorted(module.__all__)
