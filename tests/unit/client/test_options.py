"""Options of calls: one that a call doesn't take is named before anything is sent, with the nearest that it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stepwell_client import Client, SyncClient
from stepwell_client.calls.run_handle import RunHandle

TAKES = [
    (lambda client: client.start("count", buget=None), "start() takes no 'buget'", "budget"),
    (lambda client: client.runs(pipelines="a"), "runs() takes no 'pipelines'", "pipeline"),
    (lambda client: client.watch(status=()), "watch() takes no 'status'", "statuses"),
    (lambda client: client.purge(older=1), "purge() takes no 'older'", "older_than"),
    (lambda client: client.run("a").pause(resaon="late"), "pause() takes no 'resaon'", "reason"),
    (lambda client: client.run("a").retry_task("b", frehs=True), "takes no 'frehs'", "fresh"),
    (lambda client: client.run("a").fork(gaol="b"), "fork() takes no 'gaol'", "goal"),
    (lambda client: client.run("a").check_fork(gaol="b"), "check_fork() takes no 'gaol'", "goal"),
    (lambda client: client.run("a").watch(task_id=()), "watch() takes no 'task_id'", "task_ids"),
    (lambda client: client.run("a").logs(folow=True), "logs() takes no 'folow'", "follow"),
]


@pytest.mark.parametrize("make", [Client, SyncClient])
@pytest.mark.parametrize(("call", "message", "nearest"), TAKES)
def test_a_misspelt_option_raises_with_the_nearest_right_one(
    make: Callable[..., Any], call: Callable[[Any], object], message: str, nearest: str
) -> None:
    client = make("127.0.0.1:1", token="")
    with pytest.raises(TypeError) as caught:
        call(client)
    assert message in str(caught.value)
    assert str(caught.value).endswith(f"; did you mean {nearest!r}?")


def test_an_option_that_resembles_none_raises_with_all_of_them() -> None:
    client: Any = SyncClient("127.0.0.1:1", token="")
    with pytest.raises(TypeError) as caught:
        client.run("a").pause(xyz=1)
    assert str(caught.value) == (
        "pause() takes no 'xyz'; its options are expected_version, on_behalf_of, reason, request_id,"
        " validate_only"
    )


@pytest.mark.parametrize("make", [Client, SyncClient])
def test_a_misspelt_option_of_the_connection_raises_with_the_nearest_right_one(
    make: Callable[..., Any],
) -> None:
    with pytest.raises(TypeError, match=r"takes no 'tls_caa'; did you mean 'tls_ca'\?$"):
        make("127.0.0.1:1", token="", tls_caa="ca.pem")


def test_options_that_a_call_takes_reach_it() -> None:
    client = Client("127.0.0.1:1", token="")
    assert isinstance(client.run("a"), RunHandle)
    assert client.run("a").logs(follow=True, task_id="b").cursor.request().task_id == "b"
