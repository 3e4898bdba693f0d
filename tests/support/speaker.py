"""A program that prints what it is, for the tests of the forkserver."""

from __future__ import annotations

import os
import signal
import sys

if __name__ == "__main__":
    word = sys.argv[1]
    if word == "fail":
        sys.exit(7)
    if word == "raise":
        raise RuntimeError("as asked")
    if word == "wait":
        signal.pause()
    warm = "warm" if "stepwell.rpc.server" in sys.modules else "fresh"
    print(word, os.environ.get("SPEAKER_WORD"), __name__, warm)
