"""`stepwell workers` and `stepwell queues` against a real server and a real worker."""

from __future__ import annotations

from tests.service.cli.world import Terminal


def test_connected_worker_and_its_queue_are_listed(terminal: Terminal) -> None:
    (worker,) = terminal("workers", "--queue", "default", "--json").json["workers"]
    (queue,) = [
        one for one in terminal("queues", "--json").json["queues"] if one["name"] == "default"
    ]

    assert worker["queues"] == ["default"]
    assert worker["connected_time"]
    assert queue["workers"] == 1
    assert worker["worker_id"] in terminal("workers").out
    assert "default" in terminal("queues").out


def test_queue_without_workers_is_said_to_have_none(terminal: Terminal) -> None:
    answer = terminal("workers", "--queue", "nobody-serves-this")

    assert (answer.code, answer.out) == (0, "")
    assert "stepwell worker" in answer.err


def test_schema_of_the_input_is_printed_as_the_queues_worker_gives_it(terminal: Terminal) -> None:
    answer = terminal("run", "--queue", "default", "--input-schema")
    assert (answer.code, answer.json) == (0, {"type": "object", "title": "What to do"})

    missing = terminal("run", "--pipeline", "nobody-serves-this", "--input-schema")
    assert missing.code != 0
    assert "no worker of queue nobody-serves-this" in missing.err
