"""`stepwell`, also as `python -m stepwell`: hands the command line to the command that it names."""

from __future__ import annotations

import codecs
import io
import os
import sys

from stepwell.cli import app

_PLAIN = "stepwell.plain"
_SIGNS = {"·": "-", "…": "...", "→": "->"}
"""Characters that stand for those between words in a terminal that knows fewer. For all others it has question marks."""


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Return the characters that stand for those which can't be encoded, and where to go on."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    shown = [_SIGNS.get(one, "?") for one in error.object[error.start : error.end]]
    return "".join(shown), error.end


def main() -> None:
    """Run the command that the command line names, and exit with its code."""
    # gRPC would write lines of its own, for a failed handshake or a taken port, beside the error and in no log format.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # Pydantic would read what each installed package says of itself, for plugins of its own.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    codecs.register_error(_PLAIN, _plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_PLAIN)
    sys.exit(app.run(sys.argv[1:]))


if __name__ == "__main__":
    main()
