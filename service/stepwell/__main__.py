"""`stepwell`, also as `python -m stepwell`: runs the command that the command line names."""

from __future__ import annotations

import codecs
import io
import os
import sys

from stepwell.cli import app

_PLAIN = "stepwell.plain"
_SIGNS = {"·": "-", "…": "...", "→": "->"}
"""ASCII substitutes for terminals that lack these characters. Other characters become question marks."""


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Return the substitutes for characters that can't be encoded, and where to continue."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    shown = [_SIGNS.get(one, "?") for one in error.object[error.start : error.end]]
    return "".join(shown), error.end


def main() -> None:
    """Run the command that the command line names, and exit with its code."""
    # gRPC would print its own lines, for example for a failed handshake or a port in use, besides
    # the error and in no log format.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # Pydantic would read the metadata of all installed packages to look for plugins.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    codecs.register_error(_PLAIN, _plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_PLAIN)
    sys.exit(app.run(sys.argv[1:]))


if __name__ == "__main__":
    main()
