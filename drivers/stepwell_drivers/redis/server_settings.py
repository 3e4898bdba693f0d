"""Checks servers' settings: whether a store can use them, and how durable an acknowledgement is.

All decisions depend only on values that were read, so they can be tested without a server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple

from stepwell.core.records.errors import StoreRefused
from stepwell.core.records.states import Durability

VERSION_LEAST = {"redis": (7, 0), "valkey": (8, 0)}
SETTINGS = (
    *("appendonly", "appendfsync", "aof-load-truncated"),
    *("maxmemory", "maxmemory-policy", "min-replicas-to-write"),
)
_ORDER = tuple(Durability)


class Facts(NamedTuple):
    """One server's INFO and CONFIG."""

    name: str
    """Its address."""
    info: Mapping[str, str]
    """INFO."""
    settings: Mapping[str, str] | None
    """CONFIG, or None if it may not be read."""


class Promise(NamedTuple):
    """The durability of an acknowledgement, with the reason."""

    durability: Durability
    detail: str


def settings_of(pairs: Sequence[bytes]) -> dict[str, str]:
    """Return CONFIG GET's answer by name."""
    words = [part.decode(errors="replace") for part in pairs]
    return dict(zip(words[::2], words[1::2], strict=True))


def info_of(text: bytes) -> dict[str, str]:
    """Return INFO's answer by name."""
    lines = text.decode(errors="replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def room_of(info: Mapping[str, str]) -> float:
    """Return the bytes that a server has left below its `maxmemory`; below 0 it is full."""
    most = int(info.get("maxmemory", "0"))
    used = int(info.get("used_memory", "0")) - int(info.get("mem_not_counted_for_evict", "0"))
    return most - used if most else inf


def check(facts: Facts, *, is_cluster: bool) -> None:
    """Raise if a server can't be used with its settings.

    Raises:
        StoreRefused: the message says what to do.
    """
    where, info = f"the Redis at {facts.name}", facts.info
    kind = "valkey" if "valkey_version" in info else "redis"
    version = info.get(f"{kind}_version", "")
    if version and _numbers(version) < VERSION_LEAST[kind]:
        least = ".".join(map(str, VERSION_LEAST[kind]))
        raise StoreRefused(f"{where} is {kind} {version}; at least {least} is needed")
    if info.get("redis_mode") == "sentinel":
        raise StoreRefused(f"{where} is a sentinel; name the server that it watches over")
    clustered = info.get("cluster_enabled") == "1" or info.get("redis_mode") == "cluster"
    if clustered and not is_cluster:
        raise StoreRefused(f"{where} is a node of a cluster; open it as redis+cluster://…")
    if is_cluster and not clustered:
        raise StoreRefused(f"{where} is no node of a cluster; open it as redis://…")
    if info.get("role", "master") != "master":
        raise StoreRefused(
            f"{where} is a replica; connect to its primary, {info.get('master_host', '?')}:"
            f"{info.get('master_port', '?')}"
        )
    policy = _policy(facts)
    if policy.startswith("allkeys"):
        raise StoreRefused(
            f"{where} throws rows away when its memory is full (maxmemory-policy {policy}); set"
            " maxmemory-policy to noeviction, or use a server of its own for this store"
        )


def _policy(facts: Facts) -> str:
    # INFO has the policy, too, if CONFIG may not be read.
    return (facts.settings or {}).get("maxmemory-policy") or facts.info.get("maxmemory_policy", "")


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.split(".")[:2]
    return tuple(int(part) if part.isdecimal() else 0 for part in parts)


def promise(servers: Sequence[Facts], *, wait: int, word: Durability | None) -> Promise:
    """Return the weakest durability among the servers that accept writes; among equals, one that needs a warning."""
    # `min` takes the first of equals, and `False` sorts first.
    warned_first = sorted(servers, key=lambda one: not _half(one.settings or {}))
    return min(
        (_promise_of(facts, wait=wait, word=word) for facts in warned_first),
        key=lambda one: _ORDER.index(one.durability),
    )


def _promise_of(facts: Facts, *, wait: int, word: Durability | None) -> Promise:
    kind = "Valkey" if "valkey_version" in facts.info else "Redis"
    version = facts.info.get("valkey_version") or facts.info.get("redis_version", "?")
    what = f"{kind} {version}"
    waits = f", each commit waits for {wait} replica{'s' if wait > 1 else ''}" if wait else ""
    if facts.settings is None:
        if word is not None:
            return Promise(
                word, f"{what}; it doesn't show its CONFIG: {word}, by ?durability={waits}"
            )
        words = "it doesn't show its CONFIG, so nothing is promised; ?durability= may say it"
        return Promise(Durability.VOLATILE, f"{what}; {words}{waits}")
    if facts.settings.get("appendonly") != "yes":
        words = "appendonly no: what was acknowledged is lost with the server"
        return Promise(Durability.VOLATILE, f"{what}, {words}{waits}")
    fsync = facts.settings.get("appendfsync", "?")
    if fsync == "always":
        detail = f"{what}, appendonly yes, appendfsync always{waits}{_half(facts.settings)}"
        return Promise(Durability.NODE if wait else Durability.POWER, detail)
    words = "up to a second and more of what was acknowledged is lost, also when only it is killed"
    advice = "set appendfsync to always to keep it"
    return Promise(Durability.VOLATILE, f"{what}, appendfsync {fsync}: {words}; {advice}{waits}")


def _half(settings: Mapping[str, str]) -> str:
    # A log cut within a transaction loses the other half at the second start from now.
    if settings.get("aof-load-truncated") != "yes":
        return ""
    words = "half of a commit that a kill cut short may come back"
    return f"; aof-load-truncated yes: {words}; set it to no, and mend the log as it then asks for"


def missing_slots(count: int) -> StoreRefused:
    """Return the refusal of a cluster in which some slots have no owner."""
    return StoreRefused(
        f"nobody in the cluster serves {count} of its 16384 slots; mend it first: look at CLUSTER"
        " SLOTS, and at `redis-cli --cluster check` and `--cluster fix`"
    )
