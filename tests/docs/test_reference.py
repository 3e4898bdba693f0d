"""The reference of the Python packages has every public name, once."""

from __future__ import annotations

import re
from types import ModuleType

import pytest

import stepwell.embedded
import stepwell_client
import stepwell_client.enums
import stepwell_client.errors
import stepwell_client.records
import stepwell_testkit.environment
from tests.docs.pages import TOP

TEXT = (TOP / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
ROOMS = (stepwell_client.enums, stepwell_client.errors, stepwell_client.records)
MODULES = (stepwell_client, *ROOMS, stepwell.embedded, stepwell_testkit.environment)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_public_name_stands_once_in_the_reference(module: ModuleType) -> None:
    shown = re.findall(rf"^::: {re.escape(module.__name__)}\.(\w+)$", TEXT, re.MULTILINE)
    # What the client's package itself has is shown there, and not again in its room.
    elsewhere = stepwell_client.__all__ if module in ROOMS else ()
    assert sorted(shown) == sorted(set(module.__all__) - set(elsewhere))


@pytest.mark.parametrize("room", ROOMS[1:], ids=lambda module: module.__name__)
def test_a_room_lists_every_public_class_that_is_made_in_it(room: ModuleType) -> None:
    made = {
        name
        for name, value in vars(room).items()
        if isinstance(value, type) and not name.startswith("_")
        if value.__module__.startswith(room.__name__)
    }
    assert made <= set(room.__all__)


def test_the_package_itself_stays_small_enough_to_be_read() -> None:
    assert len(stepwell_client.__all__) <= 80
