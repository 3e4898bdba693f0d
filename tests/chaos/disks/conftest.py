"""A disk that forgets, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.disks import disk as disks


@pytest.fixture
def disk() -> Iterator[disks.Disk]:
    with disks.disk() as found:
        yield found
