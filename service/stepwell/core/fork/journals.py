"""Journals of a fork: which unfinished steps continue from their parent's entries, and what forbids a fork.

A step continues from its parent's journal, as of the fork's version, if it is the same step: with
the same definition, goal and input, and based on the same results. The entries are read from the
parent's journal. Any other step begins with an empty journal, and then must not repeat an
AT_MOST_ONCE call of the parent's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from stepwell.core.fork.inherit import Carry, Changes, Parent
from stepwell.core.loop.journals import name_of
from stepwell.core.records.journal import StoredEntry
from stepwell.core.records.model import Run, RunSpec
from stepwell.core.records.states import ExecutionStatus, JournalMark, Phase, StepKind, TaskStatus
from stepwell.core.records.step_journal import Journal, Source

Calls = Mapping[Source, Sequence[StoredEntry]]
"""The entries of AT_MOST_ONCE calls in each of these journals."""


class StepJournal(NamedTuple):
    """The parent's journals of one step that the fork runs."""

    task_id: str
    """The task's id; empty for the PLAN, REFLECT or SYNTHESIZE step."""
    journal: Journal
    """The state with which the fork's step begins, if it continues from the parent's journals."""
    goes_on: bool
    """False: the work recorded there is done again."""


def journals_of(
    spec: RunSpec, parent: Parent, carry: Carry, changes: Changes, run: Run
) -> Iterator[StepJournal]:
    """Yield the parent's journals of the steps that a fork runs; `run` is the fork as it begins."""
    same_run = changes.same_input and spec.goal == parent.run.spec.goal
    running = {
        one.task_id
        for one in parent.executions.values()
        if one.status is ExecutionStatus.LEASED and one.kind is not StepKind.RECONCILE
    }

    def taken(name: str, before: Journal, task_id: str) -> Journal:
        """Return the state of a step that continues from this journal."""
        if before.is_empty and task_id not in running:
            return Journal()
        own = Source(
            run_id=spec.parent_run_id,
            journal=name,
            generation=before.generation,
            version=spec.parent_version,
        )
        return Journal(tries_from=before.tries_from, sources=(*before.sources, own))

    for task_id, definition in carry.specs.items():
        task = parent.tasks.get(task_id)
        if task is None or task_id in carry.carried:
            continue
        journal = taken(name_of(parent.run, task), task.journal, task_id)
        if not journal.is_empty:
            unfinished = task.status is not TaskStatus.COMPLETED
            same = parent.graph.specs[task_id] == definition
            on_same = all(one in carry.carried for one in definition.depends_on)
            yield StepJournal(task_id, journal, same_run and unfinished and same and on_same)
    phase = parent.run.phase
    if run.phase is phase and phase not in (Phase.EXECUTING, Phase.DONE):
        journal = taken(name_of(parent.run, None), parent.run.step_journal, "")
        if not journal.is_empty:
            yield StepJournal("", journal, same_run and run.iteration == parent.run.iteration)


def repeated_call(step: StepJournal, calls: Calls) -> str:
    """Return a sentence on a call that the fork would, or might, repeat; empty if there is none."""
    entries = [one.entry for source in step.journal.sources for one in calls.get(source, ())]
    ended = {one.key for one in entries if one.mark is JournalMark.END}
    tried = {(one.key, one.number) for one in entries if one.mark is JournalMark.TRY}
    for one in entries:
        begun = one.mark is JournalMark.BEGIN and (one.key, one.number) not in tried
        if begun and one.key not in ended:
            return (
                f"Its AT_MOST_ONCE call {one.key!r} was begun, and nobody knows what became of it: fork a "
                "version before it was begun, or one at which that is settled."
            )
        if one.mark is JournalMark.END and not step.goes_on:
            return (
                f"Its AT_MOST_ONCE call {one.key!r} was made, and would be made again: leave the step, its input "
                "and what it is built on as they were, or fork a version before that call."
            )
    return ""
