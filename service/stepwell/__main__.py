"""`stepwell`, also as `python -m stepwell`: hands the command line to the command that it names."""

from __future__ import annotations

import sys

from stepwell.cli import app


def main() -> None:
    """Run the command that the command line names, and exit with its code."""
    sys.exit(app.run(sys.argv[1:]))


if __name__ == "__main__":
    main()
