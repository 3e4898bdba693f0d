"""Fixtures of the chaos tests: shared servers, a disk that forgets, and a seed that is printed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random

import pytest

from tests.chaos.disk import disk as disks
from tests.chaos.faults.fail_overs import PATIENT_MS
from tests.support.backends.child import memory_folder
from tests.support.backends.cluster import RedisCluster
from tests.support.backends.fixtures import bouncer, database, own, server
from tests.support.backends.postgres_pair import PostgresPair
from tests.support.backends.shared import redis_cluster, shared

__all__ = ["bouncer", "database", "own", "server"]

SEED_VARIABLE = "STEPWELL_FAIL_OVERS_SEED"
SEED = int(os.environ.get(SEED_VARIABLE, "20261122"))


@pytest.fixture
def rnd() -> Random:
    """Chance, whose seed is printed."""
    print(f"seed {SEED}; again with {SEED_VARIABLE}={SEED}")
    return Random(SEED)


@pytest.fixture
def pair(backends: None) -> PostgresPair:
    """A Postgres primary and its synchronous standby, both up."""
    return shared(PostgresPair, inside=memory_folder())


@pytest.fixture
def cluster(backends: None) -> RedisCluster:
    """Three masters with a replica each, all of them up, and empty."""
    cluster = redis_cluster(replicas=1, node_timeout_ms=PATIENT_MS)
    cluster.flush()
    return cluster


@pytest.fixture
def disk() -> Iterator[disks.Disk]:
    """A disk that forgets what was not synced, where one can be mounted."""
    with disks.disk() as found:
        yield found
