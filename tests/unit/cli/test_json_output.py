"""Messages as JSON documents: names, numbers, enums, times and payloads."""

from __future__ import annotations

import json

import pytest

from stepwell.cli import app
from stepwell.cli.view.json_output import document, json_value
from stepwell_client import Payload
from stepwell_client.v1 import orchestrator_pb2, types_pb2


def payload(data: bytes, media_type: str = "application/json") -> Payload:
    return Payload(data, media_type)


def test_fields_have_the_names_of_the_protocol_and_integers_are_numbers() -> None:
    run = types_pb2.Run(status=types_pb2.RUN_STATUS_FAILED, last_event=2**53 - 1)
    run.spec.run_id = "r"
    run.spec.labels["team"] = "search"
    run.created_time.FromSeconds(0)
    shown = document(orchestrator_pb2.StartRunResponse(run=run))

    assert shown["created"] is False
    assert shown["run"]["last_event"] == 2**53 - 1
    assert shown["run"]["status"] == "RUN_STATUS_FAILED"
    assert shown["run"]["spec"]["run_id"] == "r"
    assert shown["run"]["spec"]["labels"] == {"team": "search"}
    assert shown["run"]["created_time"] == "1970-01-01T00:00:00Z"
    assert "ended_time" not in shown["run"]


def test_document_without_defaults_has_only_what_is_set() -> None:
    spec = types_pb2.TaskSpec(task_id="a", depends_on=["b"])
    spec.attempt_timeout.FromSeconds(3)

    assert document(spec, defaults=False) == {
        "task_id": "a",
        "depends_on": ["b"],
        "attempt_timeout": "3s",
    }


@pytest.mark.parametrize(
    ("given", "value"),
    [
        (payload(b'{"n": 9007199254740993}'), {"n": 9007199254740993}),
        (payload(b"[1.0, -0.0]"), [1.0, -0.0]),
        (payload("naïve".encode(), "text/plain; charset=utf-8"), "naïve"),
        (payload(b"\x00\xff", "application/octet-stream"), "AP8="),
        (payload(b"\xff", "text/plain"), "/w=="),
        (payload(b"{"), "ew=="),
        (payload(b"[1e999]"), "[1e999]"),
    ],
)
def test_payload_is_json_text_or_base64(given: Payload, value: object) -> None:
    spec = types_pb2.TaskSpec(input=given.message())

    assert json.dumps(json_value(given)) == json.dumps(value)
    assert document(spec)["input"] == {"media_type": given.media_type, "data": value}


def test_error_of_the_parser_is_json_where_json_is_wanted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = app.run(["ls", "--json", "--limit", "none"])
    shown = capsys.readouterr()

    assert shown.out == ""
    error = json.loads(shown.err)["error"]
    assert (error["reason"], error["exit_code"], code) == ("USAGE", 2, 2)
    assert "--limit" in error["message"]
