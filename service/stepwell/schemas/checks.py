"""Checks whether a question's schema is valid, and whether an answer fits its question.

A check costs a bounded number of steps, whatever its input. Small checks run at once. Large ones
run in a thread, one after another, so that the event loop can continue. So does the first check
that needs the library of JSON schemas, whose import takes a while and must not delay a server's
start.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from stepwell.core.loop.occurrences import NeedsAnswer
from stepwell.core.records import limits
from stepwell.core.records.model import Payload, Question, Violation
from stepwell.core.records.states import NO_PERSON, QuestionKind
from stepwell.schemas.effort import Effort, TooLong
from stepwell.schemas.json_text import InvalidJson, load

STEPS_MAX = 100_000
"""The most steps of one check, which take about a second."""
STEPS_AT_ONCE_MAX = 1_000
BYTES_AT_ONCE_MAX = 4 * 1024
_CACHED_MAX = 256
_CACHED_BYTES_MAX = 16 * 1024
"""The length up to which a schema's text is remembered as valid."""

Violations = tuple[Violation, ...]
Check = Callable[[Effort], Violations]

_valid: dict[str, None] = {}
_LIBRARY = "stepwell.schemas.guarded"
_thread = ThreadPoolExecutor(1, thread_name_prefix="schemas")


def _check_at_once(check: Check, size: int, *, has_schema: bool) -> Violations | None:
    """Run a small check; return None for a large one, which must run in the thread."""
    if size > BYTES_AT_ONCE_MAX or (has_schema and _LIBRARY not in sys.modules):
        return None
    try:
        return check(Effort(STEPS_AT_ONCE_MAX))
    except TooLong:
        return None


def _check_in_thread(check: Check, field: str) -> asyncio.Future[Violations]:
    """Run a check in the thread; one that takes too long is a violation of `field`."""

    def bounded() -> Violations:
        try:
            return check(Effort(STEPS_MAX))
        except TooLong:
            description = "it takes too long to check; make it smaller or its schema simpler"
            return (Violation(field=field, description=description),)

    return asyncio.get_running_loop().run_in_executor(_thread, bounded)


async def answer_violations(question: Question, answer: Payload) -> Violations:
    """Return the faults of an answer, as paths from `answer`; none if it fits."""

    def check(effort: Effort) -> Violations:
        return _answer(question, answer, effort)

    size = len(answer.data) + len(question.schema)
    violations = _check_at_once(check, size, has_schema=bool(question.schema))
    return await _check_in_thread(check, "answer") if violations is None else violations


async def question_violations(question: NeedsAnswer) -> Violations:
    """Return the faults of a question, as paths from `needs_answer`.

    A schema is checked once and then remembered as valid.
    """
    if question.kind is QuestionKind.CHOICE and not question.choices:
        description = "a choice has at least one thing to choose"
        return (Violation(field="needs_answer.choices", description=description),)
    if question.kind in NO_PERSON:
        description = f"a person answers no {question.kind}"
        return (Violation(field="needs_answer.kind", description=description),)
    text = question.schema
    if not text or text in _valid:
        return ()

    def check(effort: Effort) -> Violations:
        return _schema(text, effort)

    violations = _check_at_once(check, len(text), has_schema=True)
    return (
        await _check_in_thread(check, "needs_answer.schema") if violations is None else violations
    )


def _schema(text: str, effort: Effort) -> Violations:
    from stepwell.schemas.guarded import Schema, SchemaError  # noqa: PLC0415 - see above

    try:
        Schema(load(text, effort), effort)
    except (InvalidJson, SchemaError) as error:
        return (Violation(field="needs_answer.schema", description=str(error)),)
    if len(text) <= _CACHED_BYTES_MAX:
        if len(_valid) >= _CACHED_MAX:
            _valid.clear()
        _valid[text] = None
    return ()


def _answer(question: Question, answer: Payload, effort: Effort) -> Violations:
    if len(answer.data) > limits.ANSWER_BYTES_MAX:
        size = f"{len(answer.data):,} bytes; an answer has at most {limits.ANSWER_BYTES_MAX:,}"
        return (Violation(field="answer.data", description=size),)
    media_type = answer.media_type.partition(";")[0].strip()
    is_json = media_type in ("", "application/json") or media_type.endswith("+json")
    bound = question.schema or question.kind in (QuestionKind.APPROVAL, QuestionKind.CHOICE)
    if not is_json:
        if not bound:
            return ()
        description = f"{answer.media_type[:80]!r} is asked for as JSON: application/json"
        return (Violation(field="answer.media_type", description=description),)
    try:
        value = load(answer.data, effort)
    except InvalidJson as error:
        return (Violation(field="answer", description=str(error)),)
    description = _kind_fault(question, value)
    if description:
        return (Violation(field="answer", description=description),)
    return _schema_faults(question.schema, value, effort) if question.schema else ()


def _kind_fault(question: Question, value: Any) -> str:
    """Return why an answer doesn't fit the question's kind, or ""."""
    if question.kind is QuestionKind.APPROVAL:
        approved = (
            cast("dict[str, Any]", value).get("approved") if isinstance(value, dict) else value
        )
        if not isinstance(approved, bool):
            return "an approval is true or false, or an object whose `approved` is that"
    elif question.kind is QuestionKind.CHOICE and value not in question.choices:
        return f"it is none of the choices: {', '.join(question.choices)[:300]}"
    return ""


def _schema_faults(text: str, value: Any, effort: Effort) -> Violations:
    from stepwell.schemas.guarded import Schema, SchemaError, path_of  # noqa: PLC0415 - see above

    try:
        schema = Schema(load(text, effort), effort)
        faults = schema.faults(value, effort, limits.VIOLATIONS_MAX)
    except (InvalidJson, SchemaError) as error:
        description = f"no answer fits, for the question's own schema is not sound: {error}"
        return (Violation(field="answer", description=description),)
    return tuple(
        Violation(field=path_of("answer", path), description=message) for path, message in faults
    )
