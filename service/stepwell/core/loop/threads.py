"""Threads: conversations over runs, of which one works at a time.

A thread has a version and commits as a run has, and does no step. A run that is started in it is an open question of
the thread, of the kind CHILD, until the run's end. So the thread's own commits decide, without a lock, which of its
runs works: the run is started by a letter, waits if another one works, and is let go by another letter.
"""

from __future__ import annotations

from msgspec.structs import replace

from stepwell.core.loop import letters, steers
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.occurrences import StartInThread
from stepwell.core.loop.run_commands import plan_refusal
from stepwell.core.loop.thread_messages import begin_event, fork_refusal
from stepwell.core.loop.thread_occurrences import RunLeft
from stepwell.core.loop.transition import UNCHANGED, Reply, refused, run_ended
from stepwell.core.records import limits
from stepwell.core.records.model import Question
from stepwell.core.records.states import EventType, OnBusy, QuestionKind, QuestionStatus
from stepwell.core.records.threads import THREAD_LABEL

_FIRST = "first:"
"""The beginning of the questions that stand for runs that interrupt; others begin with `steers.LAST`. In the order of their
ids, the runs work."""
_NUMBERS = 10**12


def start_in_thread(draft: Draft, one: StartInThread) -> Reply:
    """Start a run in the thread: at once if none works, or as `on_busy` says. The same run again changes nothing."""
    spec = one.spec
    for known in draft.open_questions():
        if known.prompt == spec.run_id:
            if known.arguments == spec.request_fingerprint:
                steered = draft.run.thread.working if steers.is_steer(known) else ""
                return replace(UNCHANGED, steered=steered)
            return refused(
                "REQUEST_ID_REUSED",
                "this request_id started another run before; use a new one for a new run",
            )
    if one.on_busy is OnBusy.STEER and (reply := steers.known_steer(draft, one)) is not None:
        return reply
    runs = runs_in(draft)
    refusal = plan_refusal(one.plan) or _refusal(draft, one, runs)
    if refusal is not None:
        return refusal
    if runs and one.on_busy is OnBusy.STEER:
        return steers.steer(draft, one, _letter(one, waits=True))
    begin_event(draft, EventType.RUN_JOINED, spec.run_id, spec.thread_id)
    _join(draft, one, runs)
    return Reply()


def _refusal(draft: Draft, one: StartInThread, runs: list[Question]) -> Reply | None:
    """Return why a run can't be started in the thread now, or None."""
    thread = one.spec.thread_id
    if (incomplete := fork_refusal(draft.run)) is not None:
        return incomplete
    if runs and one.on_busy is OnBusy.REJECT:
        working = draft.run.thread.working
        return refused("THREAD_BUSY", f"run {working} of thread {thread!r} works")
    if len(runs) > limits.THREAD_WAITING_MAX:
        what = f"{limits.THREAD_WAITING_MAX:,} runs wait in thread {thread!r}"
        return refused("THREAD_FULL", f"{what}; start another one when they have ended")
    if letters.undelivered(draft) + len(runs) > limits.LETTERS_MAX:
        return refused("TOO_MANY_LETTERS", f"too much of thread {thread!r} is not delivered yet")
    size = letters.size_of(_letter(one, waits=False))
    if size > limits.THREAD_START_BYTES_MAX:
        what = "the fork has" if one.fork is not None else "goal, input and plan have"
        return refused(
            "THREAD_START_TOO_LARGE",
            f"{what} {size:,} bytes together; in a thread {limits.THREAD_START_BYTES_MAX:,} are the most",
        )
    return None


def _join(draft: Draft, one: StartInThread, runs: list[Question]) -> None:
    """Put a run into the order of the thread, and start it; if none works, it does."""
    run_id, thread = one.spec.run_id, draft.run.thread
    number = thread.joined + 1
    interrupts = bool(runs) and one.on_busy is OnBusy.INTERRUPT
    # Of several that replace the run that works, the last comes first.
    place = f"{_FIRST}{_NUMBERS - number:012}" if interrupts else f"{steers.LAST}{number:012}"
    draft.put_question(
        Question(
            question_id=place,
            task_id="",
            kind=QuestionKind.CHILD,
            prompt=run_id,
            arguments=one.spec.request_fingerprint,
            created_us=draft.context.now_us,
        )
    )
    draft.change_run(
        thread=replace(thread, joined=number, working=thread.working if runs else run_id)
    )
    letters.write(draft, _letter(one, waits=bool(runs)))
    if interrupts:
        for before in runs:
            if before.prompt == thread.working or before.question_id.startswith(_FIRST):
                reason = f"run {run_id} of its thread replaces it"
                letters.write(draft, letters.CancelRun(run_id=before.prompt, reason=reason))


def _letter(one: StartInThread, *, waits: bool) -> letters.StartRun:
    return letters.StartRun(
        spec=replace(one.spec, labels={**one.spec.labels, THREAD_LABEL: one.spec.thread_id}),
        input=one.input,
        plan=one.plan,
        stages=one.stages,
        waits=waits,
        fork=one.fork,
        actor=one.actor,
        on_behalf_of=one.on_behalf_of,
    )


def runs_in(draft: Draft) -> list[Question]:
    """Return the questions that stand for the thread's runs that haven't ended, in the order in which they work."""
    runs = [one for one in draft.open_questions() if not steers.is_steer(one)]
    return sorted(runs, key=lambda question: question.question_id)


def run_left(draft: Draft, one: RunLeft) -> Reply:
    """Take a run, or a steer, out of the thread, once; if it was the run that works, let the next one go."""
    left = next((known for known in draft.open_questions() if known.prompt == one.run_id), None)
    if left is None:
        return UNCHANGED
    draft.event(EventType.RUN_LEFT, message=one.run_id)
    if steers.is_steer(left):
        steers.end(draft, left)
        return Reply()
    now_us = draft.context.now_us
    draft.put_question(replace(left, status=QuestionStatus.ANSWERED, ended_us=now_us))
    thread = draft.run.thread
    if thread.working == one.run_id:
        steers.run_left(draft, one)
        following = next((known.prompt for known in runs_in(draft)), "")
        draft.change_run(thread=replace(thread, working=following, taken=0))
        if following:
            letters.write(draft, letters.LetRunGo(run_id=following))
    return Reply()


def let_go(draft: Draft) -> Reply:
    """Let a run of a thread work, within the thread's order."""
    run = draft.run
    if run.ended:
        return run_ended(run, "its thread goes on")
    if not run.waits_for_thread:
        return UNCHANGED
    draft.event(EventType.RUN_LET_GO)
    draft.change_run(waits_for_thread=False)
    return Reply()
