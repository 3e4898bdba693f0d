"""One server and one worker, as processes, for all tests of the command line in a test process."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import pytest

from tests.service.cli.world import LIVES_S, SESSION_S, SETTINGS, Terminal, serving, working


@pytest.fixture(scope="session")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A terminal whose server is there and has a worker on its default queue."""
    made = Terminal(tmp_path_factory.mktemp("cli"))
    made.lives_s = SESSION_S
    (made.folder / "stepwell.toml").write_text(textwrap.dedent(SETTINGS))
    with serving(made) as address:
        made.variables["STEPWELL_TARGET"] = address
        # What a test left under way is handed back at once: nobody waits for it any more.
        with working(made, "--drain", "0"):
            made.lives_s = LIVES_S
            yield made
