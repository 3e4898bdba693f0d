"""The samples that the page's charts begin with: bounded, each tenant's own, and given to sessions only."""

from __future__ import annotations

from stepwell.console.pulse import EVERY_S, SAMPLES_MAX, TENANTS_MAX, Look, Pulse
from stepwell.core.records.states import RunStatus
from stepwell.runtime import SystemRuntime
from tests.service.conftest import ME
from tests.service.console.conftest import Console


def test_samples_are_rates_of_the_tenant_and_no_more_than_an_hour() -> None:
    commits = {"a": 0}
    runs = {("a", RunStatus.RUNNING): 3, ("b", RunStatus.QUEUED): 1, ("a", RunStatus.WAITING): 9}
    pulse = Pulse(lambda: Look(dict(commits), {"a": commits["a"] // 2}, runs), SystemRuntime())
    for _ in range(SAMPLES_MAX + 5):
        commits["a"] += 2 * EVERY_S
        pulse.sample()
    found = pulse.last_hour("a")
    assert found == {
        "every_s": EVERY_S,
        "commits": [2.0] * SAMPLES_MAX,
        "ended": [1.0] * SAMPLES_MAX,
        "running": [3] * SAMPLES_MAX,
        "queued": [0] * SAMPLES_MAX,
    }
    assert pulse.last_hour("b")["commits"] == [0.0] * SAMPLES_MAX
    assert pulse.last_hour("c")["commits"] == []


def test_no_more_tenants_are_sampled_than_the_limit() -> None:
    commits = {f"t{number}": 1 for number in range(2 * TENANTS_MAX)}
    pulse = Pulse(lambda: Look(commits, {}, {}), SystemRuntime())
    for _ in range(2):
        pulse.sample()
    kept = [tenant for tenant in commits if pulse.last_hour(tenant)["commits"]]
    assert len(kept) == TENANTS_MAX


async def test_a_session_gets_the_samples_and_a_stranger_gets_none(console: Console) -> None:
    client = console.http.client
    refused = await client.get("/pulse")
    assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
    answer = await client.get("/pulse", headers={"Authorization": str(ME[0][1])})
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json()["every_s"] == EVERY_S
