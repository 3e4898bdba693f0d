"""The calls that only read: each with its text, and the question to a store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Set

from msgspec.structs import replace

from stepwell.core.port import Store
from tests.contract.differential import calls as c
from tests.contract.differential import reading
from tests.contract.differential.compare import brief, rows_of
from tests.contract.differential.known import Key, Known
from tests.contract.differential.making import ENDS, pick
from tests.contract.differential.names import WORKERS

Ask = Callable[[Store], Awaitable[object]]
Asked = tuple[str, Ask]
OLDER_MS = 2**45
"""Before 1970."""
LIST_NAMES = ("list_tasks", "list_executions", "read_messages", "read_logs")


def group_of(call: c.AnyCall) -> str:
    """Return the optional group of the contract that a call needs; "": none."""
    match call:
        case c.RunsCall(by=by) if by:
            return "filters"
        case c.DeleteCall():
            return "delete"
        case c.FindCall():
            return "keyed"
        case c.EndedCall():
            return "retention"
        case c.FeedCall() | c.NonsenseCall(what=5):
            return "feed"
        case c.TrimCall() | c.PurgeCall():
            return "logs"
        case c.LogCall() | c.ReadOnCall() | c.ListCall(what=3) | c.NonsenseCall(what=3):
            return "logs"
        case c.PresenceCall():
            return "presence"
        case _:
            return ""


def asked_of(call: c.AnyCall, known: Known) -> Asked | None:
    """Return the question of a call with its text; None: it asks nothing, as things are."""
    match call:
        case c.LoadCall():
            return _load(known.key(call.tenant, call.run), call.since)
        case c.FetchCall():
            return _fetch(known.key(call.tenant, call.run), known)
        case c.EventsCall():
            return _events(known.key(call.tenant, call.run), call.after, call.limit)
        case c.ListCall():
            return _list(known.key(call.tenant, call.run), call)
        case c.RunsCall():
            return _runs(known.tenants[call.tenant], call)
        case c.InputsCall():
            key = known.key(call.tenant, call.run)
            return _inputs(key[0], key[1] if call.of_run else "", call.limit)
        case c.EndedCall():
            return _ended(known.tenants[call.tenant], call)
        case c.LeasesCall():
            return _leases(known.tenants[call.tenant], call.worker)
        case c.NonsenseCall():
            return _nonsense(call.what, known)
        case _:
            raise AssertionError(f"it does more than read: {call}")


def everything(known: Known, left_out: Set[str]) -> Iterator[Asked]:
    """Ask for all that can be read of what a program did, but for what a driver leaves out."""
    for tenant in range(len(known.tenants)):
        yield _runs(known.tenants[tenant], c.RunsCall(limit=2))
        yield _inputs(known.tenants[tenant], "", 2)
        for statuses in range(len(ENDS)) if "retention" not in left_out else ():
            yield _ended(known.tenants[tenant], c.EndedCall(statuses=statuses, limit=100))
        if "presence" not in left_out:
            yield _presences(known.tenants[tenant])
        for worker in range(len(WORKERS)):
            yield _leases(known.tenants[tenant], worker)
    for key in known.reached:
        yield _load(key, 0)
        yield _fetch(key, known)
        yield _inputs(*key, 1)
        if key in known.heads:
            yield _events(key, 0, 100_000)
            for what in range(len(LIST_NAMES) - ("logs" in left_out)):
                yield _list(key, c.ListCall(what=what, limit=3))


def what_is_left(known: Known) -> Iterator[Asked]:
    """Ask for what every run, there or deleted, has left behind."""
    for key in known.reached:
        yield _fetch(key, known)


def the_log_of(key: Key) -> Asked:
    """Ask for a run's log."""
    return _list(key, c.ListCall(what=LIST_NAMES.index("read_logs"), limit=3))


def _load(key: Key, since: int) -> Asked:
    async def ask(store: Store) -> object:
        return await rows_of(store, *key, since), await store.get_run(*key)

    return f"load {key} since {since}, and get_run", ask


def _fetch(key: Key, known: Known) -> Asked:
    plans = known.plans.get(key, 0)
    text = f"read_payloads, read_outcomes and read_plan of {key}"
    return text, lambda store: reading.fetched(store, key, plans)


def _events(key: Key, after: int, limit: int) -> Asked:
    text = f"read_events {key} after {after}, limit {limit}"
    return text, lambda store: store.read_events(*key, after=after, limit=limit)


def _list(key: Key, call: c.ListCall) -> Asked:
    text = f"{pick(LIST_NAMES, call.what)} {key}, pages of {call.limit}, filter {call.only}"
    listed = pick(reading.LISTS, call.what)
    return text, lambda store: listed(store, key, call.limit, call.only)


def _runs(tenant_id: str, call: c.RunsCall) -> Asked:
    query = reading.query_of(tenant_id, call.by, call.value, call.limit)
    return f"list_runs {brief(query)}", lambda store: reading.runs(store, query)


def _inputs(tenant_id: str, run_id: str, limit: int) -> Asked:
    text = f"list_inputs {tenant_id!r} {run_id!r}, pages of {limit}"
    return text, lambda store: reading.inputs(store, tenant_id, run_id, limit)


def _ended(tenant_id: str, call: c.EndedCall) -> Asked:
    query = reading.ended_query_of(tenant_id, call.statuses, call.pipeline, call.limit)
    if call.ancient:
        query = replace(query, older_ms=OLDER_MS)

    async def ask(store: Store) -> object:
        return list((await store.page(query)).items)

    return f"list_ended {brief(query)}", ask


def _leases(tenant_id: str, worker: int) -> Asked:
    text = f"list_leases {tenant_id!r} of {pick(WORKERS, worker)!r}"
    return text, lambda store: reading.leases(store, tenant_id, worker)


def _presences(tenant_id: str) -> Asked:
    text = f"list_presence {tenant_id!r}"
    return text, lambda store: reading.presences(store, tenant_id)


def _nonsense(what: int, known: Known) -> Asked | None:
    if not known.heads:
        return None
    key = next(iter(known.heads))
    return f"a cursor that no store made ({what})", lambda s: reading.nonsense(s, key, what)
