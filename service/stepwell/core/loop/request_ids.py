"""Request ids: a run carries out a command with one once, for as long as the run is kept.

The newest `REQUESTS_KEPT_MAX` are loaded with the run. The commit of a command that adds one more moves the oldest into a
journal of its own, which is named after the request id and read by that name: only for a command whose id isn't among
the newest, and only once a run has that many.
"""

from __future__ import annotations

import hashlib
import hmac

from stepwell.core.loop.draft import Draft
from stepwell.core.loop.occurrences import AnyCommand
from stepwell.core.loop.transition import UNCHANGED, Reply, refused
from stepwell.core.port import EntryWrite, JournalQuery
from stepwell.core.records.journal import Entry
from stepwell.core.records.limits import REQUESTS_KEPT_MAX
from stepwell.core.records.model import RequestRecord

JOURNALS = "request:"
"""The beginning of the names of the journals with older request ids."""
_GENERATION = 1


def known(draft: Draft, command: AnyCommand) -> Reply | None:
    """Return the reply to a command that came before, or None if its request id is new.

    Until the store is read for it, the reply isn't final, as the draft shows.
    """
    request_id, requests = command.request_id, draft.state.requests
    if (record := requests.get(request_id)) is not None:
        fingerprint = record.fingerprint
    elif len(requests) < REQUESTS_KEPT_MAX:
        return None
    else:
        spec = draft.run.spec
        query = JournalQuery(
            tenant_id=spec.tenant_id,
            run_id=spec.run_id,
            journal=_journal_of(request_id),
            limit=1,
        )
        stored = draft.read(query)
        if stored is None:
            return UNCHANGED
        if not stored:
            return None
        fingerprint = stored[0].entry.arguments
    if hmac.compare_digest(fingerprint, command.fingerprint):
        return UNCHANGED
    return refused(
        "REQUEST_ID_REUSED",
        f"request_id {request_id!r} was used before for another request; "
        "use a new one for a new request",
    )


def note(draft: Draft, command: AnyCommand) -> None:
    """Note the request id of a command that is carried out, within the current event."""
    requests = draft.state.requests
    draft.request = RequestRecord(
        request_id=command.request_id, fingerprint=command.fingerprint, version=draft.version
    )
    if len(requests) >= REQUESTS_KEPT_MAX:
        oldest = next(iter(requests.values()))
        entry = Entry(key="request", arguments=oldest.fingerprint)
        journal = _journal_of(oldest.request_id)
        draft.entries += (EntryWrite(journal=journal, generation=_GENERATION, entry=entry),)


def _journal_of(request_id: str) -> str:
    return JOURNALS + hashlib.sha256(request_id.encode()).hexdigest()
