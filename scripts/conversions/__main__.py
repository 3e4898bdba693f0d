"""Writes service/stepwell/wire/conversions_pb2.py, or says that it is not what proto/ and the records say now."""

from __future__ import annotations

import sys

from scripts.conversions import FILE, text


def main() -> None:
    """Write the file, or compare it with `--check`."""
    fresh = text()
    if "--check" not in sys.argv[1:]:
        FILE.write_text(fresh, encoding="utf-8")
        print(f"{len(fresh.splitlines()):,} lines in {FILE.name}")
    elif FILE.read_text(encoding="utf-8") != fresh:
        sys.exit(
            f"error: {FILE.name} is not what proto/ and the records say now; run `make generate`"
        )


main()
