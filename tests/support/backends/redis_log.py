"""The log of a Redis that ended in the middle of a write: nothing but its torn end is taken away.

A kill or a power cut can leave the last write to the log half there. By itself Redis takes such a log
(`aof-load-truncated yes`) and cuts it after the last whole command. That may be in the middle of a
transaction: what is written next then follows a MULTI without its EXEC. With the start after that one, half of
a transaction has happened, and single commands that were acknowledged are gone (Redis 8.2; Valkey 9.1
cuts before the MULTI). `redis-check-aof --fix` cuts before the MULTI too, but in a log that has such a place far
before its end it throws away all that follows. So Redis has to leave the log alone, and it is mended
before anything is appended to it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.backends.binaries import redis_program
from tests.support.backends.child import NotStarted

SETTINGS = {"aof-load-truncated": "no"}


def refuses(error: NotStarted) -> bool:
    """Tell whether the server's last word was about its log."""
    return "reading the append only file" in str(error).rstrip().rpartition("\n")[2]


def log_of(folder: Path) -> Path:
    """Return the file that the server of this folder appends to."""
    (found,) = (folder / "appendonlydir").glob("*.incr.aof")
    return found


def mend(kind: str, folder: Path) -> None:
    """Take away the torn end of a log; nobody may use it.

    Raises:
        NotStarted: it can't be mended so.
    """
    # The server's own program, under its other name.
    (tool := folder / f"{kind}-check-aof").unlink(missing_ok=True)
    tool.symlink_to(redis_program(kind))
    # Not the manifest: Valkey's tool doesn't know the file that it names first.
    command = [tool, "--fix", log_of(folder)]
    done = subprocess.run(command, input=b"y\n", capture_output=True, check=False)
    if done.returncode != 0:
        raise NotStarted(f"its log can't be mended: {done}")
