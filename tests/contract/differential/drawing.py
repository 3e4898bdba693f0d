"""Strategies by which Hypothesis draws calls. A failure shrinks to the first value of each range.

The fields of a record are drawn as one number with as many digits as there are fields: a program has
some hundred records, and a draw costs more than many a call to a store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TypeVar

from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from tests.contract.differential.calls import (
    AnyCall,
    Base,
    Change,
    Check,
    ClaimCall,
    CommitCall,
    DeleteCall,
    EndedCall,
    EventsCall,
    FeedCall,
    FetchCall,
    FindCall,
    InputsCall,
    LeasesCall,
    ListCall,
    LoadCall,
    LogCall,
    NonsenseCall,
    PassCall,
    PresenceCall,
    PurgeCall,
    ReadOnCall,
    RenewCall,
    ReopenCall,
    RowOfExecution,
    RowOfTask,
    RunsCall,
    TrimCall,
    Wanted,
)

T = TypeVar("T")
S = TypeVar("S", bound=Struct)
Strategy = st.SearchStrategy


def record(make: Callable[..., T], **fields: Sequence[object]) -> Strategy[T]:
    """Draw a record by one number: each field is one of its choices."""
    choices = list(fields.items())

    def made(number: int) -> T:
        values: dict[str, object] = {}
        for name, among in choices:
            number, index = divmod(number, len(among))
            values[name] = among[index]
        return make(**values)

    return st.integers(0, prod(len(among) for among in fields.values()) - 1).map(made)


def with_rows(one: Strategy[S], **rows: Strategy[object]) -> Strategy[S]:
    """Draw a record, and then fields of it that no number stands for."""

    def both(made: S, more: dict[str, object]) -> S:
        return replace(made, **more)

    return st.builds(both, one, st.fixed_dictionaries(rows))


def few(one: Strategy[T], most: int) -> Strategy[tuple[T, ...]]:
    """Draw none to `most` of them."""
    return st.lists(one, max_size=most).map(tuple)


def some(one: Strategy[T], most: int) -> Strategy[tuple[T, ...]]:
    """Draw one to `most` of them."""
    return st.lists(one, min_size=1, max_size=most).map(tuple)


def pair(one: Sequence[int], other: Sequence[int]) -> Strategy[tuple[int, int]]:
    """Draw two numbers as one."""

    def both(one: int, other: int) -> tuple[int, int]:
        return one, other

    return record(both, one=one, other=other)


YES_OR_NO = (False, True)
CONNECTIONS = range(2)
# Most of it in one place: much that can go wrong needs several calls about one run.
TENANTS = (0, 0, 0, 1)
RUNS = (0, 0, 1, 2)
TEXTS = range(8)
LIMITS = range(1, 6)

checks = record(Check, lease=(0, 0, 0, 1, 2, 5), right=(True, True, False))
executions = record(
    RowOfExecution,
    name=range(8),
    # READY and LEASED are most of what a store has to care for.
    status=(0, 1, 0, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9),
    lease=(1, 2, 3, 0),
    result=range(6),
    delay=(0, 0, 1, 3, 5),
    queue=range(3),
    role=range(3),
    priority=(1, 0, 2),
    worker=range(2),
    limit=range(4),
)
scalars = record(
    Change,
    tenant=TENANTS,
    run=RUNS,
    parent=(0, 0, 1, 0, 2, 0),
    events=(1, 0, 2, 3, 4),
    plan=(0, 0, 0, 1, 3, 4),
    status=range(7),
    text=TEXTS,
    kind=range(12),
    request=YES_OR_NO,
    payload=range(6),
)
following = with_rows(
    scalars,
    tasks=few(record(RowOfTask, task=range(6), status=range(8)), 2),
    executions=few(executions, 3),
    fences=few(checks, 1),
    timers=few(pair(range(3), (0, 1, 2, 3, -1)), 2),
    inputs=few(pair(range(2), range(4)), 1),
    messages=few(pair(range(3), TEXTS), 2),
    keyed=few(pair(range(3), range(8)), 1),
)
BASES = (Base.NEXT, Base.NEXT, Base.AGAIN, Base.STALE, Base.AHEAD, Base.CREATE, Base.AGAIN)
of_any_base = with_rows(
    following, base=st.sampled_from(BASES), back=st.sampled_from((0, 1, 0, 2, 7))
)
again = record(Change, base=(Base.AGAIN,), back=range(21))

commit_calls = st.builds(
    CommitCall,
    connection=st.integers(0, 1),
    changes=st.tuples(following),
)
batch_calls = st.builds(CommitCall, changes=some(of_any_base, 5))
again_calls = st.builds(CommitCall, changes=some(again, 3))
renew_calls = with_rows(
    record(
        RenewCall, connection=CONNECTIONS, lease=range(1, 5), progress=range(6), session=YES_OR_NO
    ),
    beats=some(checks, 3),
)
wants = record(
    Wanted,
    tenant=TENANTS,
    queues=(0, 0, 0, 1, 2, 3, 4),
    kinds=(0, 0, 1, 2),
    roles=(0, 0, 0, 1, 2, 3),
    limit=(1_000, 1_000, 0, 1, 2),
)
claim_calls = with_rows(
    record(ClaimCall, connection=CONNECTIONS, due_limit=(1_000, 1_000, 0, 1, 2), hold=YES_OR_NO),
    wants=few(wants, 3),
)
pass_calls = record(PassCall, periods=range(1, 4))
load_calls = record(
    LoadCall, connection=CONNECTIONS, tenant=TENANTS, run=RUNS, since=(1, 0, 2, 3, 4, 6, 9)
)
fetch_calls = record(FetchCall, connection=CONNECTIONS, tenant=TENANTS, run=RUNS)
events_calls = record(
    EventsCall,
    connection=CONNECTIONS,
    tenant=TENANTS,
    run=RUNS,
    after=range(16),
    limit=range(1, 10),
)
list_calls = record(
    ListCall,
    connection=CONNECTIONS,
    tenant=TENANTS,
    run=RUNS,
    what=range(4),
    only=range(4),
    limit=LIMITS,
)
runs_calls = record(
    RunsCall, connection=CONNECTIONS, tenant=TENANTS, by=range(8), value=range(8), limit=range(1, 5)
)
inputs_calls = record(
    InputsCall, connection=CONNECTIONS, tenant=TENANTS, run=RUNS, of_run=YES_OR_NO, limit=LIMITS
)
find_calls = record(FindCall, connection=CONNECTIONS, tenant=TENANTS, pipeline=range(3))
ended_calls = record(
    EndedCall,
    connection=CONNECTIONS,
    tenant=TENANTS,
    statuses=range(6),
    pipeline=range(3),
    limit=LIMITS,
    ancient=(False, False, False, True),
)
feed_calls = record(
    FeedCall, connection=CONNECTIONS, reader=range(2), limit=range(1, 10), to_the_end=(True, False)
)
log_calls = with_rows(
    record(LogCall, connection=CONNECTIONS, tenant=TENANTS, run=RUNS),
    lines=some(pair((0, 0, 0, 1, 2, 6), TEXTS), 3),
)
trim_calls = record(
    TrimCall, connection=CONNECTIONS, tenant=TENANTS, run=RUNS, name=(0, 0, 0, 1), kind=range(3)
)
purge_calls = record(PurgeCall, connection=CONNECTIONS, periods=(1, 0, 2), limit=(1_000, 1, 2, 5))
read_on_calls = record(
    ReadOnCall, connection=CONNECTIONS, tenant=TENANTS, run=RUNS, only=range(2), limit=LIMITS
)
delete_calls = record(
    DeleteCall, connection=CONNECTIONS, tenant=TENANTS, run=RUNS, off=(0, 0, 1, -1)
)
presence_calls = record(
    PresenceCall,
    connection=CONNECTIONS,
    tenant=TENANTS,
    workers=((0,), (), (1,), (0, 1), (2, 0), (3, 1, 0)),
    ttl=(1, 0, 2),
    text=TEXTS,
)
leases_calls = record(LeasesCall, connection=CONNECTIONS, tenant=TENANTS, worker=range(2))
nonsense_calls = record(NonsenseCall, connection=CONNECTIONS, what=range(8))
reopen_calls = st.just(ReopenCall())

WEIGHTS: tuple[tuple[int, Strategy[AnyCall]], ...] = (
    (14, commit_calls),
    (6, batch_calls),
    (2, again_calls),
    (4, renew_calls),
    (7, claim_calls),
    (4, pass_calls),
    (6, load_calls),
    (3, fetch_calls),
    (2, events_calls),
    (4, list_calls),
    (2, runs_calls),
    (2, inputs_calls),
    (2, find_calls),
    (2, ended_calls),
    (3, feed_calls),
    (3, log_calls),
    (2, trim_calls),
    (2, purge_calls),
    (2, read_on_calls),
    (2, delete_calls),
    (2, presence_calls),
    (2, leases_calls),
    (1, nonsense_calls),
    # Some stores take a second to come back.
    (1, reopen_calls),
)
_TABLE = tuple(calls for weight, calls in WEIGHTS for _ in range(weight))
any_calls = st.integers(0, len(_TABLE) - 1).flatmap(_TABLE.__getitem__)
"""Not rules of a machine, nor one_of: both draw each kind alike, or leave most kinds out."""
