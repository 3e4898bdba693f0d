"""For a pytest that `by_tests` starts: plants the bug that its environment names while its tests run."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

from tests.mutants.planting import NO_BUG, PLANTED


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop() -> Generator[None, object, object]:
    """Plant it around all tests."""
    name = os.environ[PLANTED]
    if name == NO_BUG:
        return (yield)
    # Not before: pytest wants to read what this reads first.
    from tests.mutants.catalogue import BY_NAME

    with BY_NAME[name].plant():
        return (yield)
