"""A Postgres primary and its standby at two fixed places, which they swap when the primary dies."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from tests.support.backends import ports
from tests.support.backends.child import until
from tests.support.backends.postgres import Postgres
from tests.support.patience import PATIENCE_S

SYNCHRONOUS = {"synchronous_standby_names": "*"}


class PostgresPair:
    """`primary` takes writes, `standby` follows it; `synchronous`: a COMMIT waits for the standby.

    There are three places, so that a new standby needn't wait until the dead primary's is free.
    """

    def __init__(
        self, version: int = 18, *, synchronous: bool = True, inside: Path | None = None
    ) -> None:
        self._settings = SYNCHRONOUS if synchronous else {}
        self.primary = Postgres(version, settings=self._settings, inside=inside)
        self.standby: Postgres | None = None
        self._spare = ports.reserve()
        self._places: tuple[int, ...] = ()

    def start(self) -> Self:
        """Start both, also if a test left them down, and wait until the standby follows."""
        self.primary.start()
        if self.standby is not None:
            self.standby.start()
        else:
            self.standby = self.primary.standby(**self._settings).start()
            self._places = (self.primary.port, self.standby.port, self._spare)
        self.wait_ready()
        return self

    def wait_ready(self) -> None:
        """Wait until the standby has all that there is, and is waited for where it is synchronous."""
        state = "sync" if self._settings else "async"
        assert until(lambda: self._follows() == [("streaming", state)], PATIENCE_S), self._follows()

    def _follows(self) -> list[tuple[str, str]]:
        rows = self.primary.fetch("SELECT state, sync_state FROM pg_stat_replication")
        return [(row["state"], row["sync_state"]) for row in rows]

    def url(self, database: str, **options: str) -> str:
        """All places; the one that takes writes is used."""
        hosts = ",".join(f"127.0.0.1:{place}" for place in self._places)
        query = "".join(f"&{key}={value}" for key, value in options.items())
        return f"postgresql://{self.primary.user}@{hosts}/{database}?sslmode=disable{query}"

    def cut_replication(self) -> None:
        """The standby gets nothing any more."""
        assert self.standby is not None
        self.standby.execute("ALTER SYSTEM SET primary_conninfo = ''")
        self.standby.execute("SELECT pg_reload_conf()")
        assert until(lambda: not self._follows(), PATIENCE_S), self._follows()

    def promote(self) -> Postgres:
        """Make the standby the primary, with a new standby; return the old one as it is."""
        old, new = self.primary, self.standby
        assert new is not None
        new.execute("SELECT pg_promote(true, 30)")
        self.primary = new
        standby = new.standby(**self._settings)
        ports.release(standby.port)
        standby.port = self._spare
        self.standby = standby.start()
        self.wait_ready()
        return old

    def retire(self, old: Postgres) -> None:
        """End an old primary; the next standby takes its place."""
        old.close()
        self._spare = ports.reserve(old.port)

    def close(self) -> None:
        for server in (self.standby, self.primary):
            if server is not None:
                server.close()
        ports.release(self._spare)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()
