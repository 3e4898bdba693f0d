"""Ids of runs that are made from request ids: stored runs are found by them."""

from __future__ import annotations

import json
import uuid

import pytest

from stepwell.rpc.orchestrator.request_ids import run_id_of

NAMESPACE = uuid.UUID("8f2c5d1e-6b0a-5c41-9f57-7a3d54e0c911")


@pytest.mark.parametrize("request_id", ["r", 'é\n"', *(f"nightly-{n}" for n in range(20))])
def test_run_id_is_a_uuid_made_from_tenant_and_request_id(request_id: str) -> None:
    name = json.dumps(["tenant", request_id])
    assert run_id_of("tenant", request_id) == str(uuid.uuid5(NAMESPACE, name))
