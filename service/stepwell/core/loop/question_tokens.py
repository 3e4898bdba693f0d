"""Rules for questions that have a token, by which whoever has it may answer (`app/question_tokens.py`).

The loop knows a token's hash alone, and makes the question's id from it. So the question is found
by its token without an index, and an attempt that asks again has the same question.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from stepwell.core.loop.draft import Draft
from stepwell.core.loop.occurrences import NeedsAnswer, SuspendedCall
from stepwell.core.records.errors import INVALID_OUTCOME
from stepwell.core.records.model import Failure

TOKEN = "token:"  # noqa: S105 - a prefix, not a token
"""Prefix of the id of a question that has a token; the token's hash follows."""
_SHA256_HEX = re.compile(r"[0-9a-f]{64}")


def token_id(wait: object) -> str:
    """Return the id of a call's question that has a token; empty for any other wait."""
    hashed = wait.token_sha256 if isinstance(wait, NeedsAnswer) else ""
    return f"{TOKEN}{hashed}" if hashed else ""


def token_refusal(draft: Draft, task_id: str, calls: Iterable[SuspendedCall]) -> Failure | None:
    """Return why these calls of a step may not ask with their tokens, or None."""
    calls = [one for one in calls if token_id(one.wait)]
    if not calls:
        return None
    asked = {(one.task_id, one.call): one.question_id for one in draft.open_questions()}
    owners = {question_id: owner for owner, question_id in asked.items()}
    for one in calls:
        question_id, owner = token_id(one.wait), (task_id, one.call)
        if not _SHA256_HEX.fullmatch(question_id.removeprefix(TOKEN)):
            message = "token_sha256 is no SHA-256: 64 hex digits, in lower case"
        elif owners.setdefault(question_id, owner) != owner:
            message = "another open question of the run has the same token"
        elif asked.get(owner, question_id) != question_id:
            message = f"the call {one.call!r} has asked with another token, or without one"
        else:
            continue
        return Failure(kind=INVALID_OUTCOME, message=message, retryable=False)
    return None
