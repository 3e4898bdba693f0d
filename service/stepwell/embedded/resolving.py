"""What a person found out about an unknown outcome, as the command that settles it."""

from __future__ import annotations

from stepwell.core.loop.signals import Resolve
from stepwell.core.records.model import Failure as CoreFailure
from stepwell.core.records.states import Finding
from stepwell.wire import to_record
from stepwell_client import Done, Failure, NotDone, encode


def resolution(execution_id: str, found: Done | NotDone | Failure) -> Resolve:
    """Return the command."""
    if isinstance(found, NotDone):
        return Resolve(execution_id=execution_id, finding=Finding.NOT_DONE, reason=found.reason)
    if isinstance(found, Failure):
        failure = CoreFailure(
            kind=found.kind, message=found.message, details=found.details, retryable=False
        )
        return Resolve(execution_id=execution_id, finding=Finding.DONE, failure=failure)
    payload = encode(found.value)
    return Resolve(
        execution_id=execution_id,
        finding=Finding.DONE,
        reason=found.reason,
        result=to_record(payload) if payload is not None else None,
    )
