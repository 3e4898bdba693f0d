"""Stores of several servers: what is acknowledged outlives the loss of one of them, where its class says so."""

from __future__ import annotations

import os
from random import Random

import pytest

from tests.chaos.distributed.blows import PATIENT_MS
from tests.support.backends.child import memory_folder
from tests.support.backends.cluster import RedisCluster
from tests.support.backends.fixtures import backends
from tests.support.backends.postgres_pair import PostgresPair
from tests.support.backends.shared import redis_cluster, shared

__all__ = ["backends", "cluster", "pair", "rnd"]

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
