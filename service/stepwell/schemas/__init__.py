"""Questions and answers of strangers, checked: is the schema one, and does the answer fit the question.

A check costs a bounded number of steps, whatever it is given. A small one is done at once; a large one
in a thread of its own, one after the other, so that the event loop goes on meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from stepwell.core.loop.inputs import NeedsInput
from stepwell.core.records import limits
from stepwell.core.records.model import InputRequest, Payload, Violation
from stepwell.core.records.states import InputKind
from stepwell.schemas.effort import Effort, TooLong
from stepwell.schemas.guarded import Schema, SchemaError, path_of
from stepwell.schemas.json_text import NoJson, load

STEPS_MAX = 100_000
"""Of one check: a second or so."""
STEPS_AT_ONCE_MAX = 1_000
BYTES_AT_ONCE_MAX = 4 * 1024
_KEPT_MAX = 256
_KEPT_BYTES_MAX = 16 * 1024
"""Of a schema's text, to be remembered as sound."""

Violations = tuple[Violation, ...]
Check = Callable[[Effort], Violations]

_sound: dict[str, None] = {}
_thread = ThreadPoolExecutor(1, thread_name_prefix="schemas")


def check_at_once(check: Check, size: int) -> Violations | None:
    """Do a small check; None: it isn't small, give it to `check_apart`."""
    if size > BYTES_AT_ONCE_MAX:
        return None
    try:
        return check(Effort(STEPS_AT_ONCE_MAX))
    except TooLong:
        return None


def check_apart(check: Check, field: str) -> asyncio.Future[Violations]:
    """Do a check in the thread; `field` is what is too much, where it takes too long."""

    def bounded() -> Violations:
        try:
            return check(Effort(STEPS_MAX))
        except TooLong:
            words = "it takes too long to check; make it smaller or its schema simpler"
            return (Violation(field=field, description=words),)

    return asyncio.get_running_loop().run_in_executor(_thread, bounded)


async def answer_violations(request: InputRequest, answer: Payload) -> Violations:
    """Return what is wrong with an answer, as paths from `answer`: nothing if it fits."""

    def check(effort: Effort) -> Violations:
        return _answer(request, answer, effort)

    found = check_at_once(check, len(answer.data) + len(request.schema))
    return await check_apart(check, "answer") if found is None else found


async def question_violations(question: NeedsInput) -> Violations:
    """Return what is wrong with a question, as paths from `needs_input`."""
    found = check_question(question)
    return found if isinstance(found, tuple) else await found


def check_question(question: NeedsInput) -> Violations | asyncio.Future[Violations]:
    """Do the same; a future only where it can't be said at once. A schema is looked at once."""
    if question.kind is InputKind.CHOICE and not question.choices:
        words = "a choice has at least one thing to choose"
        return (Violation(field="needs_input.choices", description=words),)
    text = question.schema
    if not text or text in _sound:
        return ()

    def check(effort: Effort) -> Violations:
        return _schema(text, effort)

    found = check_at_once(check, len(text))
    return check_apart(check, "needs_input.schema") if found is None else found


def _schema(text: str, effort: Effort) -> Violations:
    try:
        Schema(load(text, effort), effort)
    except (NoJson, SchemaError) as error:
        return (Violation(field="needs_input.schema", description=str(error)),)
    if len(text) <= _KEPT_BYTES_MAX:
        if len(_sound) >= _KEPT_MAX:
            _sound.clear()
        _sound[text] = None
    return ()


def _answer(request: InputRequest, answer: Payload, effort: Effort) -> Violations:
    if len(answer.data) > limits.ANSWER_BYTES_MAX:
        size = f"{len(answer.data):,} bytes; an answer has at most {limits.ANSWER_BYTES_MAX:,}"
        return (Violation(field="answer.data", description=size),)
    media_type = answer.media_type.partition(";")[0].strip()
    is_json = media_type in ("", "application/json") or media_type.endswith("+json")
    bound = request.schema or request.kind in (InputKind.APPROVAL, InputKind.CHOICE)
    if not is_json:
        if not bound:
            return ()
        words = f"{answer.media_type[:80]!r} is asked for as JSON: application/json"
        return (Violation(field="answer.media_type", description=words),)
    try:
        value = load(answer.data, effort)
    except NoJson as error:
        return (Violation(field="answer", description=str(error)),)
    words = _kind_fault(request, value)
    if words:
        return (Violation(field="answer", description=words),)
    return _schema_faults(request.schema, value, effort) if request.schema else ()


def _kind_fault(request: InputRequest, value: Any) -> str:
    """Return what is wrong with an answer of this kind; empty: nothing."""
    if request.kind is InputKind.APPROVAL:
        said = cast("dict[str, Any]", value).get("approved") if isinstance(value, dict) else value
        if not isinstance(said, bool):
            return "an approval is true or false, or an object whose `approved` is that"
    elif request.kind is InputKind.CHOICE and value not in request.choices:
        return f"it is none of the choices: {', '.join(request.choices)[:300]}"
    return ""


def _schema_faults(text: str, value: Any, effort: Effort) -> Violations:
    try:
        schema = Schema(load(text, effort), effort)
        faults = schema.faults(value, effort, limits.VIOLATIONS_MAX)
    except (NoJson, SchemaError) as error:
        words = f"no answer fits, for the question's own schema is not sound: {error}"
        return (Violation(field="answer", description=words),)
    return tuple(
        Violation(field=path_of("answer", path), description=words) for path, words in faults
    )
