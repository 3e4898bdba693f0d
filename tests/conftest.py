"""Parts that all tests share: the doors, a check of each event that is seen, and the list of invariants at the end."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from stepwell_testkit.conformance.report import pytest_terminal_summary
from tests.support import watched

__all__ = ["pytest_terminal_summary"]

pytest_plugins = ("tests.support.doors", "tests.support.proofs.played")

# The time that an example takes says something about the machine alone. The same examples are drawn each time.
settings.register_profile(
    "own", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("own")
watched.patch()
# A shell that starts the tests in its background has them, and all that they start, ignore SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _events_are_whole() -> Iterator[None]:
    """Each event of each watch of each test comes once, in its order, the same for all."""
    log = watched.begin()
    yield
    assert not log.wrong, "\n".join(log.wrong)


@pytest.fixture(autouse=True, scope="session")
def _state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tokens and locks of this user's own servers and workers are left alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        # Workers of this process hold no interpreter, and a second process for each of them costs time.
        patch.setenv("STEPWELL_KEEPER", "false")
        yield


@pytest.fixture
def scripted_server(_events_are_whole: None) -> None:
    """A server that breaks the rules on purpose: its streams are let pass."""
    watched.log.streams = False
