"""Child runs: runs that a step of another run starts, and whose end it waits for.

A child belongs to the call of its step: the call's question names it, so an attempt that makes the call again
finds the same child. Its start, its cancellation and its end are letters (`letters.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from zlib import crc32

from msgspec.structs import replace

from stepwell.core.loop import letters
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.occurrences import AwaitChild, ChangePlace, ChildEnds, SignalChild
from stepwell.core.loop.transition import UNCHANGED, Reply
from stepwell.core.port import EntryWrite, JournalQuery
from stepwell.core.records import graph, limits
from stepwell.core.records.family import ChildOf
from stepwell.core.records.journal import Entry
from stepwell.core.records.model import (
    Budget,
    Failure,
    Payload,
    Question,
    Record,
    Run,
    RunSpec,
    Usage,
)
from stepwell.core.records.routing import WorkerVersion
from stepwell.core.records.states import EventType, RunStatus
from stepwell.core.records.texts import id_ending

OWN_LABELS = "stepwell."
"""The beginning of the names of labels that the service itself gives a run. No caller may give such a label."""
PARENT_LABEL = "stepwell.parent"
ROOT_LABEL = "stepwell.root"
"""Labels by which the children of a run, and all runs below a root, are found."""
_PLACE_LABELS = (PARENT_LABEL, ROOT_LABEL)

CANCELLED = "cancelled"
"""The journal of the children that were cancelled with their questions, and whose ends haven't come, by their ids."""
_SHARED = ("input_tokens", "output_tokens", "cost_micros")
"""The parts of a budget of which children get a share."""


class ChildEnd(Record, frozen=True, kw_only=True):
    """The end of a child run: the value of the call that waits for it, as JSON."""

    run_id: str
    status: str
    """The run's status; FAILED if it could not be started."""
    reason: str = ""
    """The words that came with its end."""
    failure: Failure = Failure()
    result: Payload | None = None
    """The synthesis' result; data in base64."""
    tasks: dict[str, Payload] = {}
    """Without a synthesis: the results of its completed tasks, by their ids."""
    too_large: bool = False
    """The results are larger than `CHILD_RESULT_BYTES_MAX` and are left out; ListResults has them."""


def own_labels(labels: dict[str, str]) -> dict[str, str]:
    """Return labels without those that the service gave, such as a child's place in its tree."""
    return {name: one for name, one in labels.items() if not name.startswith(OWN_LABELS)}


def refusal(draft: Draft, starts: Sequence[AwaitChild], signals: int = 0) -> Failure | None:
    """Return why a step may not start these children, nor send so many signals to some, or None."""
    if not starts and not signals:
        return None
    run = draft.run
    pending = run.letters.next - run.letters.first
    if pending + len(starts) + signals > limits.LETTERS_MAX:
        return _refused("TOO_MANY_LETTERS", f"{pending:,} letters of the run are not delivered yet")
    left = {name: _left(draft, name) for name in _SHARED}
    if starts and run.spec.child_of.depth >= limits.CHILD_DEPTH_MAX:
        return _refused("CHILD_TOO_DEEP", f"{limits.CHILD_DEPTH_MAX} runs are above it")
    if run.children + len(starts) > limits.CHILDREN_MAX:
        return _refused("TOO_MANY_CHILDREN", f"a run starts at most {limits.CHILDREN_MAX:,}")
    for one in starts:
        if _bytes_of(one) > limits.CHILD_INPUT_BYTES_MAX:
            what = f"goal, input and plan have more than {limits.CHILD_INPUT_BYTES_MAX:,} bytes"
            return _refused("CHILD_TOO_LARGE", what)
        if one.tasks and (violations := graph.violations_of(one.tasks)):
            first = violations[0]
            return _refused("PLAN_INVALID", f"plan: {first.field}: {first.description}")
        if one.tasks and one.reflect_on:
            what = (
                "reflect_on needs the stage REFLECT, which a child with a plan of its parent lacks"
            )
            return _refused("REFLECT_ON_INVALID", what)
        if len(own_labels(one.labels)) < len(one.labels):
            return _refused("LABELS_INVALID", f"no label's name may begin with {OWN_LABELS!r}")
        for name in _SHARED:
            rest = left[name]
            if rest is None:
                continue
            share = getattr(one.budget, name) or rest
            if rest <= 0 or share > rest:
                what = f"it would get {share} {name}, and {max(0, rest)} of the parent's are left"
                return _refused("CHILD_BUDGET", what)
            left[name] = rest - share
    return None


def _refused(kind: str, why: str) -> Failure:
    return Failure(
        kind=kind, message=f"no child run can be started or signalled: {why}", retryable=False
    )


def _bytes_of(one: AwaitChild) -> int:
    size = len(one.goal.encode()) + (len(one.input.data) if one.input is not None else 0)
    for task in one.tasks:
        size += len(task.prompt.encode()) + (len(task.input.data) if task.input is not None else 0)
    return size


def _left(draft: Draft, name: str) -> int | None:
    """Return what is left of a part of the budget, without the shares of open children, or None without a limit."""
    limit = getattr(draft.run.budget, name)
    if not limit:
        return None
    return limit - getattr(draft.run.usage, name) - draft.shares[_SHARED.index(name)]


def start(
    draft: Draft,
    question: Question,
    asked: AwaitChild,
    *,
    delay_ms: int = 0,
    results: tuple[letters.TaskResult, ...] = (),
) -> Question:
    """Write the letter that starts a child, within the current event; return the question, which names the child.

    `results`: what its input has besides that of `asked`.
    """
    run = draft.run
    number = run.children + 1
    spec = replace(_spec(draft, question, asked, number), start_delay_ms=delay_ms)
    draft.change_run(children=number)
    plan = asked.tasks or None
    letters.write(draft, letters.StartRun(spec=spec, input=asked.input, plan=plan, results=results))
    if asked.follow_pauses and run.status is RunStatus.PAUSED:
        letters.write(draft, letters.PauseRun(run_id=spec.run_id))
    shares = {name: getattr(spec.budget, name) for name in _SHARED if getattr(run.budget, name)}
    return replace(
        _begun(draft, question),
        prompt=spec.run_id,
        budget=Budget(**shares),
        follow_pauses=asked.follow_pauses,
    )


def signal(draft: Draft, question: Question, child: Question, asked: SignalChild) -> Question:
    """Write the letter with a signal to a child, within the current event; return the question, which names the child."""
    name, value = asked.name, asked.value
    question_id = question.question_id
    letter = letters.SignalRun(run_id=child.prompt, question_id=question_id, name=name, value=value)
    letters.write(draft, letter)
    return replace(_begun(draft, question), prompt=child.prompt)


def _begun(draft: Draft, question: Question) -> Question:
    """Return a question that is younger than all children to which letters are still to be written."""
    oldest = max([one.until_us + 1 for one in draft.run.letters.unwritten], default=0)
    return replace(question, created_us=max(question.created_us, oldest))


def cancel(draft: Draft, question: Question, reason: str) -> None:
    """Write the letter that cancels a child, within the current event; its end comes as any other."""
    letters.write(draft, letters.CancelRun(run_id=question.prompt, reason=reason))


def change_place(draft: Draft, one: ChangePlace) -> Reply:
    """Set the run's place in its tree, with the labels by which it is found there."""
    spec, place = draft.run.spec, one.child_of
    if spec.child_of == place:
        return UNCHANGED
    draft.event(EventType.PLACE_CHANGED, message=place.root_run_id or spec.run_id)
    kept = {name: one for name, one in spec.labels.items() if name not in _PLACE_LABELS}
    draft.change_spec(replace(spec, labels={**kept, **_labels_of(place)}, child_of=place))
    return Reply()


def _labels_of(place: ChildOf) -> dict[str, str]:
    return {PARENT_LABEL: place.run_id, ROOT_LABEL: place.root_run_id} if place.run_id else {}


def withdraw(draft: Draft, question: Question, reason: str) -> None:
    """Cancel a child whose question ends before it, within the current event, and keep that its usage is still to be added."""
    cancel(draft, question, reason)
    draft.entries += (_cancelled(question.prompt),)


def ended_late(draft: Draft, one: ChildEnds) -> Reply:
    """Add what a cancelled child has used, once, unless the run has ended, too: then its usage is final."""
    if draft.run.ended or one.usage == Usage():
        return UNCHANGED
    write, spec = _cancelled(one.run_id), draft.run.spec
    query = JournalQuery(
        tenant_id=spec.tenant_id,
        run_id=spec.run_id,
        journal=write.journal,
        generation=write.generation,
    )
    is_new = write in draft.entries
    # Until the journal is read, the decision isn't final. Another child may have the same generation.
    is_kept = is_new or any(found.entry.key == one.run_id for found in draft.read(query) or ())
    if not is_kept or write in draft.forgotten:
        return UNCHANGED
    message = f"{one.run_id}: {one.status}"
    draft.event(EventType.CHILD_ENDED, question_id=one.question_id, message=message)
    if is_new:
        draft.entries = tuple(kept for kept in draft.entries if kept != write)
    else:
        draft.forgotten += (write,)
    draft.change_run(usage=draft.run.usage + one.usage)
    return Reply()


def _cancelled(run_id: str) -> EntryWrite:
    generation = crc32(run_id.encode()) >> 1 or 1
    return EntryWrite(journal=CANCELLED, generation=generation, entry=Entry(key=run_id))


def _spec(draft: Draft, question: Question, asked: AwaitChild, number: int) -> RunSpec:
    parent = draft.run.spec
    digest = _digest(draft.run, number)
    queue = asked.queue or parent.queue
    place = ChildOf(
        run_id=parent.run_id,
        task_id=question.task_id,
        question_id=question.question_id,
        root_run_id=parent.child_of.root_run_id or parent.run_id,
        depth=parent.child_of.depth + 1,
    )
    shares = {name: getattr(asked.budget, name) or (_left(draft, name) or 0) for name in _SHARED}
    defaults = RunSpec(tenant_id=parent.tenant_id, run_id="")
    return RunSpec(
        tenant_id=parent.tenant_id,
        run_id=_id_of(digest, parent.run_id),
        pipeline_id=asked.pipeline_id or parent.pipeline_id,
        queue=queue,
        goal=asked.goal,
        labels={**asked.labels, **_labels_of(place)},
        executor_id=parent.executor_id,
        max_iterations=asked.max_iterations or defaults.max_iterations,
        max_parallel=parent.max_parallel,
        priority=parent.priority,
        budget=replace(asked.budget, **shares),
        step_retry=parent.step_retry,
        step_timeout_ms=parent.step_timeout_ms,
        request_fingerprint=digest,
        no_progress_limit=parent.no_progress_limit,
        reflect_on=tuple(dict.fromkeys(asked.reflect_on)),
        worker_version=parent.worker_version if queue == parent.queue else WorkerVersion(),
        child_of=place,
    )


def _digest(run: Run, number: int) -> str:
    """Return a digest that is unique to a child: also a later run of the parent's id has others."""
    name = "\0".join((run.spec.tenant_id, run.spec.run_id, str(run.created_us), str(number)))
    return hashlib.sha256(name.encode()).hexdigest()


def _id_of(digest: str, parent_run_id: str) -> str:
    """Return the id of a child, which ends as its parent's does, as stores of several partitions want."""
    start = f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-"
    return start + id_ending(parent_run_id)
