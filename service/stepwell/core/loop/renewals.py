"""Generations of journals: a new generation begins when recorded values must not be reused.

Calls of an earlier generation are repeated, except AT_MOST_ONCE calls, whose entries stay visible.
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
"""Kinds of failures of unusable outcomes, which the same calls would bring again."""


def renew(draft: Draft, task_id: str, why: str) -> None:
    """Begin a new generation of a step's journal, and end its questions and waits, unless it has none of these."""
    journal = journal_at(draft, task_id)
    is_open = draft.count_open(task_id) > 0
    if not journal.entries and not journal.sources and not is_open:
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
    # From the next generation, only the AT_MOST_ONCE calls of earlier ones are read.
    sources = tuple(replace(one, generation=one.generation + 1) for one in journal.sources)
    return Journal(
        generation=journal.generation + 1, tries_from=journal.tries_from, sources=sources
    )


def attempt_failed(draft: Draft, execution: Execution, failure: Failure) -> None:
    """After a failed or timed-out attempt, reset what is no longer valid: its calls' tries, or its whole journal."""
    if execution.kind is StepKind.RECONCILE:
        return
    count_tries_anew(draft, execution.task_id)
    if failure.kind in REFUSED_OUTCOMES:
        renew(draft, execution.task_id, failure.message)
