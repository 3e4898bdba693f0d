"""`stepwell`, also as `python -m stepwell`: hands the command line to the command that it names."""

from __future__ import annotations

import os
import sys

from stepwell.cli import app


def main() -> None:
    """Run the command that the command line names, and exit with its code."""
    # gRPC would write a line of its own for each failed handshake, beside the error and in no log format.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    sys.exit(app.run(sys.argv[1:]))


if __name__ == "__main__":
    main()
