"""Opens a store: checks the servers first, and refuses those that would lose rows or can't work."""

from __future__ import annotations

from typing import NamedTuple

from stepwell.core.port import Runtime, StoreInfo
from stepwell.core.records.errors import StoreError, StoreRefused, StoreUnavailable
from stepwell_drivers.redis.base import Base
from stepwell_drivers.redis.errors import Refusal, error_of, words_of
from stepwell_drivers.redis.keys import Keys, channel, meta_key, slot_of
from stepwell_drivers.redis.network import Ask, Network
from stepwell_drivers.redis.scripts import Call, Scripts
from stepwell_drivers.redis.server_settings import (
    SETTINGS,
    Facts,
    Promise,
    check,
    info_of,
    missing_slots,
    promise,
    settings_of,
)
from stepwell_drivers.redis.url import Address, Place
from stepwell_drivers.redis.wire import Command, Lost, Refused, Reply

SCHEMA = 6
"""The version of the storage format. A store with another one is refused."""
PARTITIONS = 1
"""The partitions of a store on one server. A group of commits, and a claim, take one script call in each."""
PARTITIONS_IN_CLUSTER = 24
"""The partitions of a store in a cluster: eight for each of three masters, two or three for each of ten."""
_SETTLED = "settled"
"""The fact which tells that every partition has the store's id."""


class Opened(NamedTuple):
    """The parts of an opened store."""

    base: Base
    info: StoreInfo


async def opened(place: Place, runtime: Runtime) -> Opened:
    """Check the servers, and read the store's facts or create it.

    Raises:
        StoreRefused: they can't be used as they are; the message says what to do.
        StoreUnavailable: they can't be reached.
    """
    network = Network(place, runtime)
    try:
        promised = await _check(network, place)
        scripts = Scripts()
        meta = await _meta(network, place, scripts, runtime)
        keys = Keys(place.prefix, int(meta["partitions"]))
        base = Base(network, keys, scripts, meta["store_id"])
        await _settle(base, is_new=_SETTLED not in meta)
    except BaseException:
        await network.close()
        raise
    driver = "redis+cluster" if place.is_cluster else "redis"
    info = StoreInfo(
        driver=driver,
        durability=promised.durability,
        detail=f"{promised.detail}; {_counted(len(keys.partitions), 'partition')}",
        schema_version=meta["schema"],
        store_id=meta["store_id"],
    )
    return Opened(base, info)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


async def _check(network: Network, place: Place) -> Promise:
    if place.is_cluster:
        # Before the slots are read, so that a server which is no cluster node is reported as such.
        await _first_that_answers(network, place)
        lacking = await network.refresh()
        if lacking:
            raise missing_slots(lacking)
    servers = network.servers()
    facts = [await _facts(network, address) for address in servers]
    for each in facts:
        check(each, is_cluster=place.is_cluster)
    if place.is_cluster:
        await _whole(network, servers)
    return promise(facts, wait=place.wait, word=place.durability)


async def _first_that_answers(network: Network, place: Place) -> None:
    failure: StoreError | None = None
    for address in place.seeds:
        try:
            facts = await _facts(network, address)
        except StoreUnavailable as error:
            failure = error
            continue
        if facts.info.get("cluster_enabled", "0") != "1":
            check(facts, is_cluster=True)
        return
    assert failure is not None
    raise failure


async def _whole(network: Network, servers: list[Address]) -> None:
    """Refuse a cluster that reports itself as down."""
    for address in servers:
        reply = await _ask(network, address, ("CLUSTER", "INFO"))
        if isinstance(reply, bytes) and info_of(reply).get("cluster_state", "ok") != "ok":
            raise StoreRefused(
                f"the cluster node at {address.name} says that the cluster is down; look at CLUSTER"
                " INFO and CLUSTER NODES there, and mend it first"
            )


async def _facts(network: Network, address: Address) -> Facts:
    info = await _ask(network, address, ("INFO",))
    if isinstance(info, Refusal) and info.code == "LOADING":
        raise StoreUnavailable(words_of(info, address.name))
    if isinstance(info, Refusal):
        raise StoreRefused(words_of(info, address.name))
    settings = await _ask(network, address, ("CONFIG", "GET", *SETTINGS))
    return Facts(
        name=address.name,
        info=info_of(info),
        settings=None if isinstance(settings, Refusal) or not settings else settings_of(settings),
    )


async def _ask(network: Network, address: Address, sent: Command) -> Reply:
    try:
        return await network.ask_server(address, sent)
    except Lost as error:
        raise StoreUnavailable(error.words) from None
    except Refused as error:
        raise StoreRefused(
            words_of(error.refusal, address.name), reason=error_of(error.refusal, "").reason
        ) from None


async def _meta(
    network: Network, place: Place, scripts: Scripts, runtime: Runtime
) -> dict[str, str]:
    usual = PARTITIONS_IN_CLUSTER if place.is_cluster else PARTITIONS
    created = {
        "store_id": runtime.new_id(),
        "schema": str(SCHEMA),
        "partitions": str(place.partitions or usual),
    }
    arguments = [part.encode() for pair in created.items() for part in pair]
    key = meta_key(place.prefix)
    slot = slot_of(place.prefix)
    try:
        # No message of ours, so nobody takes it: a right that is missing shows here, and not as slow hints.
        await network.ask(Ask(slot, ("PUBLISH", channel(place.prefix), b"")))
        reply = await network.ask(Ask(slot, Call(scripts.birth, (key,), arguments)))
    except StoreUnavailable as error:
        if "NOPERM" in error.message:
            raise StoreRefused(error.message) from None
        raise
    words = [part.decode() for part in reply]
    meta = dict(zip(words[::2], words[1::2], strict=True))
    if int(meta.get("schema", "0")) > SCHEMA:
        raise StoreRefused(
            f"the store was written by a newer version (schema {meta['schema']}, this one knows"
            f" {SCHEMA}); upgrade Stepwell, or name another store with ?prefix="
        )
    if int(meta.get("schema", "0")) < SCHEMA:
        raise StoreRefused(
            f"the store was written by an older version (schema {meta.get('schema', '0')}, this one"
            f" needs {SCHEMA}), and would not find all of its runs; use that version for it, or name"
            " another store with ?prefix="
        )
    if place.partitions and int(meta["partitions"]) != place.partitions:
        raise StoreRefused(
            f"the store was created with {_counted(int(meta['partitions']), 'partition')}, and their"
            " count is fixed; leave ?partitions= away"
        )
    return meta


async def _settle(base: Base, *, is_new: bool) -> None:
    """Write the store's id into each partition of a new store; check it in an existing one.

    Raises:
        StoreRefused: a partition has lost the id, and with it everything acknowledged there.
    """
    arguments = (base.store_id.encode(), b"%d" % is_new)
    found = await base.network.ask_all(
        [
            Ask(one.slot, Call(base.scripts.settle, (one.book,), arguments))
            for one in base.keys.partitions
        ]
    )
    for partition, store_id in zip(base.keys.partitions, found, strict=True):
        if store_id.decode() != base.store_id:
            where = base.network.owner_of(partition.slot).name
            raise StoreRefused(
                f"a part of the store (partition {partition.number}, on the Redis at {where}) was"
                " emptied, or is another store's: restore its data, or name another store with"
                " ?prefix="
            )
    if is_new:
        key = meta_key(base.keys.prefix)
        await base.network.ask(Ask(slot_of(base.keys.prefix), ("HSET", key, _SETTLED, "1")))
