"""Errors of the client as the command line tells them."""

from __future__ import annotations

import grpc
import pytest

from stepwell.cli.errors import explain
from stepwell_client import StepwellClientError, Unavailable
from stepwell_client.errors import DeadlineExceeded

REFUSED = Unavailable(
    "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: connect: Connection"
    " refused (111)"
)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (REFUSED, "no server answers at here:1; start one with `stepwell serve`, or name another"),
        (
            Unavailable("DNS resolution failed for here:1"),
            "no server answers at here:1 (DNS resolution failed for here:1); start one with",
        ),
        (
            Unavailable("the disk is full", reason="STORE_FULL"),
            "here:1 can't serve this now: the disk is full (STORE_FULL)",
        ),
        (Unavailable("x", status=grpc.StatusCode.CANCELLED), "here:1 ended the call"),
        (DeadlineExceeded("Deadline Exceeded"), "here:1 did not answer in time"),
    ],
)
def test_the_command_line_says_why_there_is_no_answer(
    error: StepwellClientError, said: str
) -> None:
    assert explain(error, "here:1").startswith(said)
