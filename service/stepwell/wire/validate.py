"""Checks requests against the limits that the protocol gives their fields, and names the path of each fault.

Only sizes and shapes are checked here: whether a plan is a sound graph is checked by `core.records.graph`.

The readers of `wire` check no limits: they also read what a store or a server returns, most requests
have no record that could be read, and a fault must not hide those behind it.
"""

from __future__ import annotations

from google.protobuf.message import Message

from stepwell.wire.conversions_pb2 import CHECKS
from stepwell.wire.faults import Faults


def check(request: Message) -> None:
    """Raise if any field of the request is beyond its limit; put in order what machines wrote.

    Raises:
        InvalidArgument: with the fields at fault, `VIOLATIONS_MAX` of them at the most.
    """
    violations(request).refuse()


def violations(message: Message) -> Faults:
    """Return the faults of a message, a request or an item such as an Outcome; else do as `check`.

    The tasks of a plan are not looked at: `wire.plans` does so while it reads them.
    """
    faults = Faults()
    CHECKS[type(message)](message, "", faults)
    return faults
