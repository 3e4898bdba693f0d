"""The file of the token that a server mints for clients, workers and remote stores of its user."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def default_token_file(environ: Mapping[str, str] | None = None) -> Path:
    """Return the file where a server of the same user mints its token: `~/.local/state/stepwell/token`."""
    environ = os.environ if environ is None else environ
    named = Path(environ.get("XDG_STATE_HOME", ""))
    # The XDG base directory specification ignores a relative path.
    if not named.is_absolute():
        # Not Path.home(), which raises where a user has no home, and the file is then just not there.
        named = Path("/", os.path.expanduser("~"), ".local", "state")  # noqa: PTH111 - see above
    return named / "stepwell" / "token"
