"""Programs that a machine may miss: their tests are skipped there, unless CI requires them."""

from __future__ import annotations

import os
from typing import NoReturn
from unittest import SkipTest

REQUIRE = "STEPWELL_TEST_REQUIRE"


def missing(name: str, reason: str) -> NoReturn:
    """Skips the test; fails it where `STEPWELL_TEST_REQUIRE` (comma separated) has the name."""
    required = {word.strip() for word in os.environ.get(REQUIRE, "").split(",")}
    if name in required:
        raise AssertionError(f"{reason}, and {REQUIRE} asks for {name}")
    raise SkipTest(reason)
