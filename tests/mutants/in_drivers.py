"""Bugs of drivers, in the drivers that are: names in their modules replaced, words of a script or a query."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from itertools import count
from typing import Any

from msgspec.structs import replace
from sqlalchemy import Text, func, select
from sqlalchemy.util.concurrency import await_only

from stepwell.core.port import Commit
from stepwell_drivers.clock import StoreClock
from stepwell_drivers.memory.state import State
from stepwell_drivers.redis import scripts
from stepwell_drivers.sql import batch, claims, columns, commits, pages, reads, step_rows
from stepwell_drivers.sql.postgres import writer as postgres_writer
from stepwell_drivers.sql.sqlite import writer
from stepwell_drivers.sql.sqlite.engine import raw
from stepwell_drivers.sql.statements import Insert, Query, compiled
from tests.contract.conformance.conftest import PostgresFactory, RedisFactory, SqliteFactory
from tests.mutants.conforming import Conforming
from tests.mutants.planting import Swap, everywhere, hidden
from tests.mutants.shelf import Shelf
from tests.mutants.simulated import Simulated

BUGS = Shelf()

MEMORY = Conforming()
SQLITE = Conforming("sqlite", SqliteFactory)
POSTGRES = Conforming("postgres", PostgresFactory, rounds=10)
REDIS = Conforming("redis", RedisFactory)

_TRANSACTION = Query(select(func.pg_current_xact_id().cast(Text)))
"""Has a transaction numbered now, rather than when it writes its first row."""


# --- commits -----------------------------------------------------------------------------------------


@BUGS.put("commit-in-two-transactions", SQLITE, "S1")
def _commit_in_two_transactions() -> list[Swap]:
    """The run's row is committed first and its other rows after it, so that a reader sees half of it."""
    honest = batch.together

    def together(connection: Any, several: Any) -> Any:
        counts = honest(connection, several[:2])
        raw(connection).execute("COMMIT")
        time.sleep(0.002)
        raw(connection).execute("BEGIN IMMEDIATE")
        return [*counts, *honest(connection, several[2:])]

    return [(batch, "together", together)]


@BUGS.put("version-not-compared", MEMORY, "S2")
def _version_not_compared() -> list[Swap]:
    """The last writer wins: nobody looks whether the run is still at the version that was built on."""
    honest = State.commit

    def commit(self: Any, one: Commit) -> Any:
        rows = self.runs.get((one.tenant_id, one.run_id))
        if rows is not None and one.version <= rows.version:
            one = replace(one, version=rows.version + 1)
        return honest(self, one)

    return [(State, "commit", commit)]


@BUGS.put("any-later-version-will-do", SQLITE, "S2")
def _any_later_version_will_do() -> list[Swap]:
    """`>=` stands where `=` belongs: a commit that is ahead of the run is taken, and leaves a gap."""
    group: Any = hidden(commits, "_Group")
    honest: Callable[..., Any] = group.take

    def take(self: Any, one: Commit) -> Any:
        key = (one.tenant_id, one.run_id)
        if 0 < self._versions.get(key, 0) < one.version:
            self._versions[key] = one.version - 1
        return honest(self, one)

    return [(group, "take", take)]


@BUGS.put("answered-before-the-transaction", SQLITE, "S3")
def _answered_before_the_transaction() -> list[Swap]:
    """The verdict is sent when the statements have run, and the transaction ends after it."""
    honest: Callable[..., Any] = hidden(writer.Writer, "_transact")

    def transact(self: Any, jobs: Any) -> Any:
        answers: list[Any] = []
        with self._connection.begin() as transaction:
            works = [job.work for job in jobs]
            answers = writer.apply_group(self._connection, works, lambda _: self._clock.now_us())
            transaction.rollback()
        told = [(job, answer, None) for job, answer in zip(jobs, answers, strict=True)]
        self._post(self._tell, told)
        time.sleep(0.002)
        return honest(self, jobs)

    return [(writer.Writer, "_transact", transact)]


@BUGS.put("only-the-last-commit-is-known", MEMORY, "S4")
def _only_the_last_commit_is_known() -> list[Swap]:
    """A run remembers its last commit_id alone; one that is sent again later is judged anew."""
    honest: Callable[..., bool] = hidden(State, "_was_applied")

    def was_applied(rows: Any, one: Commit) -> bool:
        return one.version == rows.version and honest(rows, one)

    return [(State, "_was_applied", staticmethod(was_applied))]


@BUGS.put("commit-id-known-anywhere", SQLITE, "S4", "S2")
def _commit_id_known_anywhere() -> list[Swap]:
    """A commit_id is looked up without the run and version that it was of."""
    group: Any = hidden(commits, "_Group")
    honest: Callable[..., Any] = group.take
    known: set[str] = set()

    def take(self: Any, one: Commit) -> Any:
        if one.commit_id in known:
            return commits.Verdict.COMMITTED
        verdict = honest(self, one)
        if verdict is commits.Verdict.COMMITTED:
            known.add(one.commit_id)
        return verdict

    return [(group, "take", take)]


@BUGS.put("second-result-overwrites", MEMORY, "S7")
def _second_result_overwrites() -> list[Swap]:
    """An outcome is written over the one that is there, instead of beside nothing."""
    honest: Callable[..., None] = hidden(State, "_apply")

    def apply(self: Any, one: Commit, rows: Any, now_us: int) -> None:
        for outcome in one.outcomes:
            rows.outcomes.pop(outcome.execution_id, None)
        honest(self, one, rows, now_us)

    return [(State, "_apply", apply)]


# --- leases --------------------------------------------------------------------------------------------


def _without_fences(one: Commit) -> Commit:
    return replace(one, fences=())


@BUGS.put("fence-dropped-in-memory", MEMORY, "S8")
def _fence_dropped_in_memory() -> list[Swap]:
    """A commit is taken whatever leases it rests on."""
    honest = State.commit
    return [(State, "commit", lambda self, one: honest(self, _without_fences(one)))]


@BUGS.put("fence-dropped-in-sql", SQLITE, "S8")
def _fence_dropped_in_sql() -> list[Swap]:
    """A fence compares the token with the empty one where no lease is found, and lets all others through."""
    group: Any = hidden(commits, "_Group")
    honest: Callable[..., Any] = group.take
    return [(group, "take", lambda self, one: honest(self, _without_fences(one)))]


@BUGS.put("fence-dropped-in-lua", REDIS, "S8")
def _fence_dropped_in_lua() -> list[Swap]:
    """The script steps over the fences two by two, and begins behind the last one."""
    return _in_script("commit", "for at = 1, #fences, 2 do", "for at = 1 + #fences, #fences, 2 do")


@BUGS.put("older-lease-stays", SQLITE, "S8", "S9", "S10")
def _older_lease_stays() -> list[Swap]:
    """A lease that is there is kept when a later one is written, so that the older worker is believed."""
    lease, blank = hidden(batch, "_LEASE"), hidden(batch, "_BLANK_LEASE")
    ignoring = Insert(batch.schema.leases, (*lease, *blank), key=lease[:3])
    return [(batch, "_put_leases", ignoring)]


# --- time ----------------------------------------------------------------------------------------------


@BUGS.put("time-is-the-wall-clock", SQLITE, "C1", "C2")
def _time_is_the_wall_clock() -> list[Swap]:
    """Deadlines are compared with the wall clock of the process, which somebody may set."""
    return [(StoreClock, "now_us", lambda self: self._runtime.now_us())]


@BUGS.put("deadline-by-the-replica", MEMORY, "C1")
def _deadline_by_the_replica() -> list[Swap]:
    """A step is available from the moment that its replica wrote into the row, by its own clock."""
    honest: Callable[..., None] = hidden(State, "_put_execution")

    def put(self: Any, rows: Any, execution: Any, now_us: int) -> None:
        honest(self, rows, execution, execution.offered_us or now_us)

    return [(State, "_put_execution", put)]


@BUGS.put("whole-seconds", Simulated(), "C2")
def _whole_seconds() -> list[Swap]:
    """Moments are kept in whole seconds, cut and not rounded up, so that timers go off early."""
    honest: Callable[..., None] = hidden(State, "_put_timer")

    def put(self: Any, rows: Any, timer: Any, now_us: int) -> None:
        cut_ms = timer.delay_ms // 1_000 * 1_000
        honest(self, rows, replace(timer, delay_ms=cut_ms), now_us)

    return [(State, "_put_timer", put)]


# --- events --------------------------------------------------------------------------------------------


@BUGS.put("feed-by-row-number", POSTGRES, "E1")
def _feed_by_row_number() -> list[Swap]:
    """The feed is read by `id > cursor`: a transaction that ends late appears behind the reader's back."""
    query: Any = hidden(pages, "_settled_feed")
    edited = _edited(
        pages,
        "_settled_feed",
        query,
        ("(commits.xid, commits.seq) > ($1, $2)", "$1::bigint IS NOT NULL AND commits.seq > $2"),
    )
    honest, groups = postgres_writer.apply_group, count()

    def apply_group(connection: Any, *given: Any) -> Any:
        # Of two transactions the later one takes its rows' numbers first, and ends last: else that is
        # rare, and the bug is caught by chance.
        early = next(groups) % 2 == 0
        if early:
            _TRANSACTION.run(connection)
            await_only(asyncio.sleep(0.02))
        answers = honest(connection, *given)
        if not early:
            await_only(asyncio.sleep(0.04))
        return answers

    return [*edited, (postgres_writer, "apply_group", apply_group)]


@BUGS.put("limit-splits-a-commit", SQLITE, "E8")
def _limit_splits_a_commit() -> list[Swap]:
    """A page has as many events as fit, wherever in a commit it ends."""
    return [(reads, "_whole_commits", lambda _connection, _key, rows: rows[:-1])]


# --- tenants -------------------------------------------------------------------------------------------


@BUGS.put("claim-of-every-tenant", SQLITE, "T3")
def _claim_of_every_tenant() -> list[Swap]:
    """The query for ready steps lost its tenant when an index was added."""
    swaps: list[Swap] = []
    for name in ("_available", "_next_priority"):
        query: Any = hidden(claims, name)
        swaps += _edited(claims, name, query, ("executions.tenant_id = ?", "? IS NOT NULL"))
    return swaps


@BUGS.put("list-of-every-tenant", SQLITE, "T1")
def _list_of_every_tenant() -> list[Swap]:
    """A list that is paged by a number of its own forgets whose rows it lists."""
    honest = pages.list_runs
    return everywhere(honest, _list_of_all(honest))


def _list_of_all(honest: Callable[..., Any]) -> Callable[..., Any]:
    def list_runs(connection: Any, query: Any, *rest: Any) -> Any:
        found = honest(connection, query, *rest)
        rows = Query(pages.select(pages.schema.runs.c.tenant_id).distinct()).run(connection)
        for (tenant_id,) in rows:
            if tenant_id != query.tenant_id:
                more = honest(connection, replace(query, tenant_id=tenant_id), *rest)
                found = replace(found, runs=(*found.runs, *more.runs))
        return found

    return list_runs


@BUGS.put("read-by-the-run-s-id", SQLITE, "T2", "T1")
def _read_by_the_run_s_id() -> list[Swap]:
    """A run is read by its id alone, since ids are unique anyway."""
    query: Any = hidden(reads, "_run")
    return _edited(reads, "_run", query, ("runs.tenant_id = ?", "? IS NOT NULL"))


@BUGS.put("names-joined", MEMORY, "T4")
def _names_joined() -> list[Swap]:
    """A run's key is its tenant and its id with a colon between, and either may hold a colon."""

    class Joined(dict[Any, Any]):
        def _key(self, key: Any) -> str:
            return f"{key[0]}:{key[1]}"

        def __getitem__(self, key: Any) -> Any:
            return super().__getitem__(self._key(key))

        def __setitem__(self, key: Any, value: Any) -> None:
            super().__setitem__(self._key(key), value)

        def __delitem__(self, key: Any) -> None:
            super().__delitem__(self._key(key))

        def __contains__(self, key: Any) -> bool:
            return super().__contains__(self._key(key))

        def get(self, key: Any, default: Any = None) -> Any:
            return super().get(self._key(key), default)

    honest: Callable[..., None] = State.__init__

    def init(self: Any, runtime: Any) -> None:
        honest(self, runtime)
        self.runs = Joined()

    return [(State, "__init__", init)]


# --- fidelity ------------------------------------------------------------------------------------------


@BUGS.put("empty-bytes-are-none", SQLITE, "D2")
def _empty_bytes_are_none() -> list[Swap]:
    """`if data` stands where `if data is not None` belongs."""
    honest = columns.bytes_of
    return everywhere(honest, lambda payload: honest(payload if payload and payload.data else None))


@BUGS.put("negative-zero-lost", SQLITE, "D2")
def _negative_zero_lost() -> list[Swap]:
    """The library that writes JSON takes -0.0 for 0."""
    honest = columns.to_json
    return everywhere(honest, lambda value: honest(value).replace("-0.0", "0.0"))


@BUGS.put("rows-cut-at-nul", SQLITE, "D2")
def _rows_cut_at_nul() -> list[Swap]:
    """Texts go through a C string on their way, and end at their first NUL."""
    honest = step_rows.message_row

    def message_row(*given: Any) -> Any:
        row = honest(*given)
        return tuple(v.partition("\0")[0] if isinstance(v, str) else v for v in row)

    return everywhere(honest, message_row)


# --- how -----------------------------------------------------------------------------------------------


class _Edited(Query):
    """A query whose text is changed before it is sent."""

    def __init__(self, honest: Any, changes: tuple[tuple[str, str], ...]) -> None:
        super().__init__(honest._statement)
        self._changes = changes

    def run(self, connection: Any, **parameters: Any) -> Any:
        name = connection.dialect.name
        if name not in self._texts:
            form = compiled(self._statement, connection.dialect)
            text = form.string
            for old, new in self._changes:
                assert old in text, text
                text = text.replace(old, new)
            self._texts[name] = (text, list(form.positiontup or []), dict(form.params))
        return super().run(connection, **parameters)


def _edited(owner: Any, name: str, honest: Any, *changes: tuple[str, str]) -> list[Swap]:
    return [(owner, name, _Edited(honest, changes))]


def _in_script(wanted: str, old: str, new: str) -> list[Swap]:
    """Change the words of one script, for stores that are opened from now on."""
    honest = scripts.Script

    def script(name: str, source: str) -> Any:
        if name == wanted:
            assert source.count(old) == 1, source
            source = source.replace(old, new)
        return honest(name, source)

    return [(scripts, "Script", script)]
