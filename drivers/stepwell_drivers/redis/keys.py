"""Every name that goes into Redis, made in one place: partitions, keys, and names within them.

A part is a name, which may hold `:`, or an id or a key, which may hold anything but NUL. It is escaped: what
could end a part or a hash tag (`:`, `{`, `}`, `%`), control characters and what stands apart in our
indexes become `%XX`. What is left is valid UTF-8 without any byte below 0x20, so parts are joined
with `:` in keys and with 0x01 in indexes, and are told apart again.

All rows of a run, and what is due or ready of it, lie in one partition: keys with one hash tag, which a
cluster keeps together and a script may change together. Where a run's id is a UUID its last twelve digits
tell the partition: a fork's id ends as its parent's, and so the two lie together.
"""

from __future__ import annotations

import re
import zlib
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

SLOTS = REDIS_CLUSTER_HASH_SLOTS
SEPARATOR = "\x01"

_ESCAPED = re.compile(r"[%:{}\x00-\x20\x7f]")
_TAG_TRIES = 10_000
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-([0-9a-f]{12})")


@lru_cache(maxsize=65_536)
def escape(name: str) -> str:
    """Return a name as it stands within a key."""
    return _ESCAPED.sub(_escaped, name)


def _escaped(match: re.Match[str]) -> str:
    return f"%{ord(match[0]):02X}"


def unescape(text: str) -> str:
    """Return the name that was escaped."""
    return unquote_to_bytes(text).decode() if "%" in text else text


def slot_of(tag: str) -> int:
    """Return the slot in which a cluster keeps the keys of this hash tag."""
    return key_slot(tag.encode())


class Partition(NamedTuple):
    """The keys of a partition that are no run's, as bytes."""

    number: int
    tag: str
    """With its braces."""
    slot: int
    book: bytes
    """Hash: the partition's time, and a line for each run: version, status, and what made it."""
    wake: bytes
    """Sorted set: what sleeps until a moment (a delay, a deadline, the end of a hold)."""
    ready: bytes
    """Sorted set by name: what may be leased, lane after lane, each in its order."""
    due: bytes
    """Sorted set: expired leases and timers that ran out, by their moment."""
    holders: bytes
    """Sorted set by name: tenant, worker → leases."""
    lists: bytes
    """Sorted set by name, lists that go over all runs, one behind the other: tenant, birth → run, with
    what it is listed by, forks once more by parent; tenant, birth → open question; tenant or any,
    pipeline or any, status, end → run.
    """
    reservations: bytes
    """Hash: tenant, pipeline and idempotency key → the run and its commit that reserved it. They lie apart
    from their runs.
    """
    logged: bytes
    """Sorted set: runs with a log, by a moment that is not after its oldest entry's."""
    tombstones: bytes
    """Sorted set: runs that may not be created, by the end of their tombstone."""
    feed: bytes
    """Stream: every commit, and for a while every deletion."""
    trash: bytes
    """Sorted set: what is left of deleted runs and is yet to be taken away."""


class RunKeys(NamedTuple):
    """The keys of one run, as bytes, and its name."""

    partition: Partition
    name: str
    """Tenant and run, escaped and joined."""
    rows: bytes
    """Hash: all rows, by kind and id."""
    orders: bytes
    """Sorted set by name: the orders in which rows are read."""
    logs: bytes
    """Stream: the log, with the moments of appending as ids."""
    log_marks: bytes
    """Hash: kind and execution → the first and the last of its entries."""
    rubbish: bytes
    """The key of a deleted run's remaining rows, until nothing refers to them any more."""
    kept: bytes
    """The same of a run that has a family: results and journals stay as long as one of it is there."""
    family: bytes
    """Hash: the family that goes by this run's id. Each fork that was ever to join → its partition."""
    tenant_feed: bytes
    """Stream: every commit of the tenant in this partition, and for a while every deletion."""
    tenant_deletions: bytes
    """Sorted set: the deletions in the tenant's feed, by their stamps."""


class Keys:
    """The names of one store."""

    def __init__(self, prefix: str, partitions: int) -> None:
        self.prefix = prefix
        self.partitions = tuple(
            _partition(number, tag) for number, tag in enumerate(_tags(prefix, partitions))
        )
        # Bound to this store: names of other stores are others.
        self.of_run = lru_cache(maxsize=16_384)(self._of_run)

    def number_of(self, *names: str) -> int:
        """Return the number of the partition in which something of these names lies."""
        joined = ":".join(escape(name) for name in names)
        return zlib.crc32(joined.encode()) % len(self.partitions)

    def of_name(self, name: bytes) -> RunKeys:
        """Return the keys of the run that is named so."""
        tenant, _, run = name.decode().partition(":")
        return self.of_run(unescape(tenant), unescape(run))

    def _of_run(self, tenant_id: str, run_id: str) -> RunKeys:
        name = f"{escape(tenant_id)}:{escape(run_id)}"
        uuid = _UUID.fullmatch(run_id)
        partition = self.partitions[self.number_of(tenant_id, uuid[1] if uuid else run_id)]
        return RunKeys(
            partition=partition,
            name=name,
            rows=f"{partition.tag}rows:{name}".encode(),
            orders=f"{partition.tag}index:{name}".encode(),
            logs=f"{partition.tag}logs:{name}".encode(),
            log_marks=f"{partition.tag}log-marks:{name}".encode(),
            rubbish=f"{partition.tag}rubbish:{name}".encode(),
            kept=f"{partition.tag}kept:{name}".encode(),
            family=f"{partition.tag}family:{name}".encode(),
            tenant_feed=self.tenant_feed(partition, tenant_id),
            tenant_deletions=f"{partition.tag}deletions-of:{escape(tenant_id)}".encode(),
        )

    @staticmethod
    def tenant_feed(partition: Partition, tenant_id: str) -> bytes:
        """Return the key of a tenant's commits in a partition."""
        return f"{partition.tag}feed-of:{escape(tenant_id)}".encode()

    def reservation(self, tenant_id: str, pipeline_id: str, key: str) -> tuple[Partition, str]:
        """Return where an idempotency key's reservation lies: the partition, and the name there."""
        names = (tenant_id, pipeline_id, key)
        return self.partitions[self.number_of(*names)], SEPARATOR.join(map(escape, names))

    def presence(self, tenant_id: str) -> tuple[Partition, bytes, bytes]:
        """Return where a tenant's workers are listed: by when they are forgotten, and as they are."""
        partition = self.partitions[self.number_of(tenant_id)]
        name = escape(tenant_id)
        until = f"{partition.tag}workers-until:{name}".encode()
        return partition, until, f"{partition.tag}workers:{name}".encode()


def meta_key(prefix: str) -> bytes:
    """Return the key of the facts that are fixed when a store is created."""
    return f"{{{prefix}}}meta".encode()


def channel(prefix: str) -> bytes:
    """Return the channel on which hints are told."""
    return f"{{{prefix}}}hints".encode()


def worker_leases(tenant_id: str, worker_id: str) -> str:
    """Return what the leases of a worker begin with."""
    return SEPARATOR.join((escape(tenant_id), escape(worker_id), ""))


def worker_of(who: bytes) -> tuple[str, str]:
    """Return worker and instance of who has a lease."""
    _, worker_id, instance_id = who.decode().split(SEPARATOR)
    return unescape(worker_id), unescape(instance_id)


def _tags(prefix: str, partitions: int) -> list[str]:
    """Return hash tags whose slots lie evenly over all: each in its own share of them.

    Part of the format: a store that was created with them finds its rows by them.
    """
    share = SLOTS / partitions
    tags: list[str] = []
    for number in range(partitions):
        names = (f"{prefix}.{number}.{tried}" for tried in range(_TAG_TRIES))
        tags.append(next(name for name in names if int(slot_of(name) / share) == number))
    return tags


def _partition(number: int, tag: str) -> Partition:
    braced = f"{{{tag}}}"
    names = Partition._fields[3:]
    keys = [f"{braced}{name}".encode() for name in names]
    return Partition(number, braced, slot_of(tag), *keys)
