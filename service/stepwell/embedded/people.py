"""What an embedded run asks of people, and how its caller answers."""

from __future__ import annotations

from stepwell.core.loop.signals import Answer
from stepwell.core.port import InputQuery, Store
from stepwell.core.records import limits
from stepwell.core.records.model import InputRequest, Payload
from stepwell.core.records.states import InputStatus
from stepwell.embedded.starting import check_size
from stepwell.wire import to_record
from stepwell_client import encode


async def read_open_inputs(store: Store, tenant_id: str, run_id: str) -> tuple[InputRequest, ...]:
    """Return the requests of a run that wait for an answer, oldest first."""
    found: list[InputRequest] = []
    cursor = ""
    while True:
        query = InputQuery(tenant_id=tenant_id, run_id=run_id, cursor=cursor)
        page = await store.list_inputs(query)
        found.extend(one.request for one in page.inputs)
        cursor = page.cursor
        if not cursor:
            return tuple(one for one in found if one.status is InputStatus.OPEN)


def answer_command(
    input_id: str, value: object, *, replan: bool, reason: str, answered_by: str
) -> Answer:
    """Return the command; None is an answer as well: JSON's null."""
    check_size("reason", len(reason.encode("utf-8", "replace")), 0, limits.REASON_BYTES_MAX)
    check_size("answered_by", len(answered_by), 0, limits.NAME_CHARS_MAX)
    encoded = encode(value)
    payload: Payload = Payload(data=b"null") if encoded is None else to_record(encoded)
    return Answer(
        input_id=input_id,
        payload=payload,
        replan=replan,
        reason=reason,
        answered_by=answered_by,
    )
