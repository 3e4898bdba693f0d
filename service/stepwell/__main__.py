"""`stepwell`, also as `python -m stepwell`: hands the command line to the command that it names."""

from __future__ import annotations

import io
import os
import sys

from stepwell.cli import app


def main() -> None:
    """Run the command that the command line names, and exit with its code."""
    # gRPC would write lines of its own, for a failed handshake or a taken port, beside the error and in no log format.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # Pydantic would read what each installed package says of itself, for plugins of its own.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that knows fewer characters shows the others as question marks.
            stream.reconfigure(errors="replace")
    sys.exit(app.run(sys.argv[1:]))


if __name__ == "__main__":
    main()
