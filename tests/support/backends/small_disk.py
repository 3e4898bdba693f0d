"""A disk that is soon full: a tmpfs of a few MiB."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.backends.postgres import give_to_postgres
from tests.support.backends.required import missing


@contextmanager
def small_disk(parent: Path, mib: int) -> Iterator[Path]:
    """A file system of a few MiB, given to whom Postgres runs as."""
    if os.geteuid() != 0:
        missing("tmpfs", "only root can mount a small tmpfs")
    folder = Path(tempfile.mkdtemp(prefix="small-", dir=parent))
    command = ["mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=0755", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        missing("tmpfs", f"a small tmpfs can't be mounted: {mounted.stderr.strip()}")
    give_to_postgres(folder)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
        folder.rmdir()
