"""Makes every name that goes into Redis: partitions, keys, and names within keys.

Each part of a name is escaped: `:`, `{`, `}`, `%` and control characters become `%XX`. The result
is valid UTF-8 without any byte below 0x20, so parts can be joined with `:` in keys and with 0x01 in
indexes, and split again.

All rows of a run, its due items and its ready steps lie in one partition: keys with one hash tag,
which a cluster keeps together and a script may change together. The ending of a run's id determines
the partition. A fork's id ends like its parent's, so both lie in the same partition.
"""

from __future__ import annotations

import re
import zlib
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from stepwell.core.records.texts import id_ending

SLOTS = REDIS_CLUSTER_HASH_SLOTS
SEPARATOR = "\x01"

_ESCAPED = re.compile(r"[%:{}\x00-\x20\x7f]")
_TAG_TRIES = 10_000


@lru_cache(maxsize=65_536)
def escape(name: str) -> str:
    """Return a name as it is written within a key."""
    return _ESCAPED.sub(_escaped, name)


def _escaped(match: re.Match[str]) -> str:
    return f"%{ord(match[0]):02X}"


def unescape(text: str) -> str:
    """Return the original of an escaped name."""
    return unquote_to_bytes(text).decode() if "%" in text else text


def slot_of(tag: str) -> int:
    """Return the slot of a cluster that has the keys of this hash tag."""
    return key_slot(tag.encode())


class Partition(NamedTuple):
    """The keys of a partition that belong to no run, as bytes."""

    number: int
    tag: str
    """The hash tag, with its braces."""
    slot: int
    book: bytes
    """Hash: the partition's time, and a line for each run with its version, status and last commit."""
    wake: bytes
    """Sorted set: items that sleep until a moment (a delay, a deadline, the end of a hold)."""
    ready: bytes
    """Sorted set by name: steps that may be leased, lane after lane, each in its order."""
    due: bytes
    """Sorted set: expired leases and timers, by their moment."""
    holders: bytes
    """Sorted set by name: tenant, worker → leases."""
    lists: bytes
    """Sorted set by name: the lists over all runs, one after another. (1) tenant, creation → run,
    with its filterable fields; forks also by parent. (2) tenant, creation → open question. (3)
    tenant or any, pipeline or any, status, end → run.
    """
    reservations: bytes
    """Hash: tenant, pipeline and idempotency key → the run that reserved it, and its commit. May
    lie in another partition than the run.
    """
    logged: bytes
    """Sorted set: runs with a log, by a moment no later than their oldest entry."""
    tombstones: bytes
    """Sorted set: deleted runs whose ids are taken, by the end of their tombstone."""
    feed: bytes
    """Stream: every commit, and for a while every deletion."""
    trash: bytes
    """Sorted set: deleted runs whose remains are not removed yet."""


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
    """Stream: the log; the ids are the moments of appending."""
    log_marks: bytes
    """Hash: kind and execution → its first and last entry."""
    rubbish: bytes
    """The key of a deleted run's rows, until its commits have left the feeds."""
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
        # A cache for each store, because stores have different names.
        self.of_run = lru_cache(maxsize=16_384)(self._of_run)

    def number_of(self, *names: str) -> int:
        """Return the number of the partition that has the thing of these names."""
        joined = ":".join(escape(name) for name in names)
        return zlib.crc32(joined.encode()) % len(self.partitions)

    def of_name(self, name: bytes) -> RunKeys:
        """Return the keys of the run with this name."""
        tenant, _, run = name.decode().partition(":")
        return self.of_run(unescape(tenant), unescape(run))

    def _of_run(self, tenant_id: str, run_id: str) -> RunKeys:
        name = f"{escape(tenant_id)}:{escape(run_id)}"
        partition = self.partitions[self.number_of(tenant_id, id_ending(run_id))]
        return RunKeys(
            partition=partition,
            name=name,
            rows=f"{partition.tag}rows:{name}".encode(),
            orders=f"{partition.tag}index:{name}".encode(),
            logs=f"{partition.tag}logs:{name}".encode(),
            log_marks=f"{partition.tag}log-marks:{name}".encode(),
            rubbish=f"{partition.tag}rubbish:{name}".encode(),
            tenant_feed=self.tenant_feed(partition, tenant_id),
            tenant_deletions=f"{partition.tag}deletions-of:{escape(tenant_id)}".encode(),
        )

    @staticmethod
    def tenant_feed(partition: Partition, tenant_id: str) -> bytes:
        """Return the key of a tenant's commits in a partition."""
        return f"{partition.tag}feed-of:{escape(tenant_id)}".encode()

    def reservation(self, tenant_id: str, pipeline_id: str, key: str) -> tuple[Partition, str]:
        """Return the partition of an idempotency key's reservation, and its name there."""
        names = (tenant_id, pipeline_id, key)
        return self.partitions[self.number_of(*names)], SEPARATOR.join(map(escape, names))

    def presence(self, tenant_id: str) -> tuple[Partition, bytes, bytes]:
        """Return where a tenant's workers are: the partition, the key of their expiry times, the
        key of their records.
        """
        partition = self.partitions[self.number_of(tenant_id)]
        name = escape(tenant_id)
        until = f"{partition.tag}workers-until:{name}".encode()
        return partition, until, f"{partition.tag}workers:{name}".encode()


def meta_key(prefix: str) -> bytes:
    """Return the key of the facts that are fixed when a store is created."""
    return f"{{{prefix}}}meta".encode()


def channel(prefix: str) -> bytes:
    """Return the channel of hints."""
    return f"{{{prefix}}}hints".encode()


def worker_leases(tenant_id: str, worker_id: str) -> str:
    """Return the prefix of a worker's leases."""
    return SEPARATOR.join((escape(tenant_id), escape(worker_id), ""))


def worker_of(who: bytes) -> tuple[str, str]:
    """Return the worker and instance of a lease's holder."""
    _, worker_id, instance_id = who.decode().split(SEPARATOR)
    return unescape(worker_id), unescape(instance_id)


def _tags(prefix: str, partitions: int) -> list[str]:
    """Return hash tags whose slots are spread evenly, one in each partition's share.

    Part of the storage format: a store finds its rows by the tags that it was created with.
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
