"""Generations of journals: a new one begins where what was recorded must not come back.

Calls of an earlier generation are made again, except AT_MOST_ONCE ones, whose entries stay visible.
"""

from __future__ import annotations

from msgspec.structs import replace

from stepwell.core.loop.draft import Draft
from stepwell.core.loop.journals import count_tries_anew, execution_of, journal_at, put_journal
from stepwell.core.loop.waits import withdraw_questions
from stepwell.core.records.errors import INVALID_OUTCOME
from stepwell.core.records.model import Execution, Failure
from stepwell.core.records.states import EventType, StepKind
from stepwell.core.records.step_journal import Journal

REFUSED_OUTCOMES = frozenset(
    {INVALID_OUTCOME, "INVALID_RESULT", "PLAN_INVALID", "RESULT_TOO_LARGE"}
)
"""Kinds of failures of outcomes that can't be used: the same calls would bring the same outcome again."""


def renew(draft: Draft, task_id: str, why: str) -> None:
    """Begin a step's journal anew, if there is anything in it; its questions and waits end."""
    journal = journal_at(draft, task_id)
    if not journal.entries and not journal.sources:
        return
    draft.event(
        EventType.JOURNAL_RENEWED,
        task_id=task_id,
        execution_id=execution_of(draft, task_id),
        message=why,
    )
    put_journal(draft, task_id, _next_generation(journal))
    withdraw_questions(draft, task_id)


def _next_generation(journal: Journal) -> Journal:
    # Of a generation that a source doesn't have, only the AT_MOST_ONCE calls before it are read.
    sources = tuple(replace(one, generation=one.generation + 1) for one in journal.sources)
    return Journal(
        generation=journal.generation + 1, tries_from=journal.tries_from, sources=sources
    )


def attempt_failed(draft: Draft, execution: Execution, failure: Failure) -> None:
    """Begin anew what an attempt that failed, or timed out, makes worthless: its calls' tries, or its whole journal."""
    if execution.kind is StepKind.RECONCILE:
        return
    count_tries_anew(draft, execution.task_id)
    if failure.kind in REFUSED_OUTCOMES:
        renew(draft, execution.task_id, failure.message)
