"""Leases in messages: an assignment brings its worker the whole lease, answers name one without its token."""

from __future__ import annotations

from stepwell.core.port import Assignment
from stepwell.core.records.journal import Entry
from stepwell.wire.records import fill
from stepwell_client.v1 import worker_pb2 as pb

_ECHO_CHARS_MAX = 256
"""Characters of an id that is too long which the answer repeats."""


def put_assignment(assignment: Assignment, message: pb.Assignment) -> None:
    """Fill in the message, and the whole of its lease, which the worker sends back as it is."""
    fill(assignment, message)
    lease = message.lease
    lease.run_id = assignment.run.run_id
    lease.execution_id = assignment.execution.execution_id


def ended_call(execution_id: str, run_id: str, entry: Entry) -> pb.EndedCall:
    """Return the message that tells the worker of a step the end of one of its calls."""
    message = pb.EndedCall(lease=pb.Lease(run_id=run_id, execution_id=execution_id))
    fill(entry, message.entry)
    return message


def named(lease: pb.Lease) -> pb.Lease:
    """Return the names in a lease, cut where they are too long, without its token."""
    return pb.Lease(
        run_id=lease.run_id[:_ECHO_CHARS_MAX], execution_id=lease.execution_id[:_ECHO_CHARS_MAX]
    )
