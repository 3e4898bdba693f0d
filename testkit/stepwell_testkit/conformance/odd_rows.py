"""Rows in which every field has an odd value other than its default."""

from __future__ import annotations

from msgspec.structs import replace

from stepwell.core.port import Commit
from stepwell.core.records.checkpoints import (
    Checkpoint,
    CheckpointState,
    Growth,
    NamedEvent,
)
from stepwell.core.records.events import Event, ExecutionChange, RunChange, TaskChange
from stepwell.core.records.journal import Entry
from stepwell.core.records.model import (
    AttemptCounts,
    Budget,
    Counts,
    Execution,
    Failure,
    Losses,
    Message,
    Outcome,
    Payload,
    Plan,
    Previous,
    Question,
    RetryPolicy,
    Run,
    RunSpec,
    Session,
    Tally,
    Task,
    TaskSpec,
    Usage,
    Violation,
)
from stepwell.core.records.routing import WorkerVersion
from stepwell.core.records.states import (
    BlockedKind,
    Effect,
    EventType,
    ExecutionStatus,
    ExpiryAction,
    FinishReason,
    JournalMark,
    OnFailure,
    PauseReason,
    Phase,
    PlanTrigger,
    QuestionKind,
    QuestionStatus,
    RunStatus,
    StepKind,
    TaskStatus,
    VersionMatch,
    WaitKind,
)
from stepwell.core.records.step_journal import Journal, Source, Wait
from stepwell_testkit.conformance import builders as b

BEYOND_FLOAT = 2**53 + 1
LARGEST_COUNT = 2**31 - 1
"""The largest count or number within a run."""
LARGEST = 2**63 - 1
ODD = "\x01 \u202e \U0001f600 é e\u0301 \r\n \t ' \" \\ {} %s \x7f"


NAME = "0dd:n@me/../a--b+c_d.E"
PARENT = "the-parent:s/../@0"


def parent_commit() -> Commit:
    """Return the first commit of the run that `full_commit` is forked from."""
    return b.created(PARENT)


def _run() -> Run:
    spec = RunSpec(
        tenant_id=b.TENANT,
        run_id=b.RUN,
        pipeline_id=NAME,
        queue=NAME,
        goal=ODD * 1_000,
        labels={ODD: ODD, "": "", "a.b": '"c"', "$": "[0]"},
        executor_id=NAME,
        max_iterations=LARGEST_COUNT,
        max_parallel=256,
        priority=-100,
        budget=Budget(
            input_tokens=BEYOND_FLOAT,
            output_tokens=1,
            cost_micros=LARGEST,
            tasks=4,
            wall_ms=7,
            iterations=LARGEST,
        ),
        step_retry=_retry(),
        step_timeout_ms=LARGEST,
        start_delay_ms=1,
        request_fingerprint="f",
        parent_run_id=PARENT,
        parent_version=3,
        family_id=PARENT,
        no_progress_limit=LARGEST_COUNT,
        worker_version=WorkerVersion(match=VersionMatch.AT_LEAST, version=NAME),
    )
    return Run(
        spec=spec,
        version=1,
        last_event=2,
        status=RunStatus.PAUSED,
        phase=Phase.REFLECTING,
        iteration=3,
        plan_revision=2,
        stages=(StepKind.SYNTHESIZE, StepKind.REFLECT),
        stages_fixed=True,
        allowance=2,
        step_attempt=4,
        step_spent=1,
        step_losses=_losses(),
        counts=Counts(total=9, completed=1, failed=2, skipped=3, cancelled=2),
        attempts=_attempts(),
        usage=Usage(input_tokens=LARGEST, output_tokens=BEYOND_FLOAT, cost_micros=-1, model=ODD),
        budget=Budget(tasks=5),
        tally=Tally(tasks=3, digest=LARGEST, fingerprint=ODD, repeats=2),
        stopping=True,
        previous=_previous(),
        step_journal=_journal(),
        step_waits=_waits(),
        actor=ODD,
        on_behalf_of=NAME,
        blocked_on=BlockedKind.PAUSED,
        blocked_since_us=1_700_000_000_123_457,
        blocked_run_id=NAME,
        pause_reason=PauseReason.BUDGET_EXHAUSTED,
        finish_reason=FinishReason.MAX_ITERATIONS,
        reason=ODD,
        failure=_failure(),
        result_id=ODD,
        created_us=1,
        started_us=2,
        ended_us=LARGEST,
    )


def _journal() -> Journal:
    source = Source(run_id=NAME, journal=ODD, generation=2, version=BEYOND_FLOAT)
    return Journal(generation=3, entries=LARGEST_COUNT, bytes=1, tries_from=2, sources=(source,))


def _waits() -> tuple[Wait, ...]:
    return (
        Wait(key=ODD, kind=WaitKind.QUESTION, question_id=ODD),
        Wait(key="k", kind=WaitKind.SLEEP),
        Wait(key="", kind=WaitKind.BUDGET),
    )


def _previous() -> Previous:
    return Previous(
        execution_id=ODD,
        session=_session(),
        progress=Payload(data=b"\x00\xff", media_type=ODD),
        failure=_failure(),
    )


def _attempts() -> AttemptCounts:
    return AttemptCounts(
        completed=1,
        failed=2,
        timed_out=3,
        lost=4,
        released=5,
        cancelled=6,
        needs_answer=LARGEST_COUNT,
        suspended=7,
    )


def _losses() -> Losses:
    return Losses(count=LARGEST_COUNT, allowance=1)


def _retry() -> RetryPolicy:
    return RetryPolicy(
        max_attempts=1_000,
        initial_backoff_ms=BEYOND_FLOAT,
        backoff_multiplier=1.1,
        max_backoff_ms=0,
        jitter=-0.0,
        non_retryable_kinds=(ODD, "", "x"),
        max_losses=7,
    )


def _failure() -> Failure:
    violations = (Violation(field=ODD, description=ODD), Violation(field="", description=""))
    return Failure(
        kind=ODD,
        message=ODD,
        details=ODD * 100,
        retryable=False,
        violations=violations,
        retry_after_ms=1_501,
    )


def _task_spec() -> TaskSpec:
    return TaskSpec(
        task_id=ODD,
        type=ODD,
        title=ODD,
        prompt=ODD,
        role=NAME,
        depends_on=("z", "a", ODD),
        input=Payload(data=bytes(range(256)), media_type=ODD),
        retry=_retry(),
        attempt_timeout_ms=1,
        heartbeat_timeout_ms=2,
        idle_timeout_ms=BEYOND_FLOAT,
        total_timeout_ms=BEYOND_FLOAT,
        on_failure=OnFailure.SKIP_DEPENDENTS,
        effect=Effect.AT_MOST_ONCE,
        idempotency_key=ODD,
        reconcile=True,
    )


def full_commit() -> Commit:
    """Return a first commit in which every field of every row differs from its default."""
    plan = Plan(
        revision=2,
        parent_revision=1,
        trigger=PlanTrigger.REPLANNED,
        reason=ODD,
        fingerprint=ODD,
        iteration=3,
        tasks=(_task_spec(), TaskSpec(task_id="a", input=Payload(data=b"")), TaskSpec(task_id="z")),
        carried=("z", ODD),
        created_us=5,
    )
    row = Task(
        task_id=ODD,
        revision=2,
        status=TaskStatus.BLOCKED,
        attempts=7,
        spent=2,
        allowance=3,
        losses=_losses(),
        reconcile_losses=_losses(),
        result_id=ODD,
        result_run_id=NAME,
        deduplicated_from=ODD,
        held_key=ODD,
        key_run_id=NAME,
        failure=_failure(),
        question_id=ODD,
        messages=LARGEST_COUNT,
        previous=_previous(),
        journal=_journal(),
        waits=_waits(),
        started_us=BEYOND_FLOAT,
        ended_us=2,
    )
    return replace(
        b.created(input=Payload(data=b"\x00\xff", media_type=ODD)),
        commit_id=ODD,
        run=_run(),
        plan=plan,
        tasks=(row, Task(task_id="a", revision=2)),
        executions=(_execution(),),
        outcomes=(Outcome(execution_id=ODD, result=Payload(), prompt=ODD, response=ODD),),
        questions=(_question(),),
        events=odd_events(),
        messages=(
            Message(
                role=ODD,
                content=ODD,
                task_id=ODD,
                execution_id=ODD,
                number=LARGEST_COUNT,
                session=_session(),
            ),
            Message(role="", content=""),
        ),
        request=b.request(ODD, BEYOND_FLOAT),
        checkpoint=odd_checkpoint(),
    )


def odd_checkpoint() -> Checkpoint:
    """Return a checkpoint in which every field differs from its default."""
    return Checkpoint(
        version=1,
        iteration=BEYOND_FLOAT,
        created_us=LARGEST,
        state=CheckpointState(
            last_event=BEYOND_FLOAT,
            events=(
                NamedEvent(number=LARGEST, type=EventType.RUN_RESUMED, message=ODD),
                NamedEvent(number=1, type=EventType.PLAN_ACCEPTED),
            ),
            run=_odd_change(),
            since=Growth(
                version=BEYOND_FLOAT,
                counts=Counts(total=-1, completed=LARGEST_COUNT),
                attempts=_attempts(),
                usage=Usage(input_tokens=LARGEST, cost_micros=-LARGEST),
            ),
            base_event=BEYOND_FLOAT,
        ),
        base=bytes(range(256)),
    )


def _question() -> Question:
    return Question(
        question_id=ODD,
        task_id=ODD,
        execution_id=ODD,
        kind=QuestionKind.CHOICE,
        prompt=ODD,
        schema=ODD,
        choices=(ODD, "", "b", "a"),
        status=QuestionStatus.OPEN,
        expires_ms=BEYOND_FLOAT,
        on_expiry=ExpiryAction.PAUSE,
        answer=Payload(data=b"", media_type=ODD),
        answered_by=ODD,
        call=ODD,
        arguments=ODD,
        created_us=1,
        ended_us=2,
    )


def _session() -> Session:
    return Session(backend=ODD, session_id=ODD)


def _execution() -> Execution:
    return Execution(
        execution_id=ODD,
        kind=StepKind.REFLECT,
        task_id=ODD,
        iteration=3,
        attempt=LARGEST_COUNT,
        queue=NAME,
        type=NAME,
        role=NAME,
        pin=NAME,
        priority=-100,
        status=ExecutionStatus.UNKNOWN_OUTCOME,
        delay_ms=9,
        worker_id=NAME,
        begun=True,
        failure=_failure(),
        usage=Usage(input_tokens=LARGEST, output_tokens=1, cost_micros=BEYOND_FLOAT, model=ODD),
        session=_session(),
        has_result=True,
        messages_after=LARGEST_COUNT,
        messages=LARGEST_COUNT,
        unknown_call=ODD,
        journal_entries=LARGEST_COUNT,
        forget_number=LARGEST_COUNT,
        offered_us=1,
        leased_us=2,
        ended_us=LARGEST,
    )


def odd_entry() -> Entry:
    """Return a journal entry in which every field is odd."""
    session = Session(backend=ODD, session_id=NAME)
    message = Message(
        role=ODD, content=ODD, task_id=NAME, execution_id=ODD, number=LARGEST_COUNT, session=session
    )
    return Entry(
        key=ODD,
        mark=JournalMark.TRY,
        number=LARGEST_COUNT,
        attempt=3,
        name=ODD,
        arguments=ODD,
        effect=Effect.AT_MOST_ONCE,
        value=Payload(data=b"\x00{\xff", media_type=ODD),
        failure=_failure(),
        usage=Usage(input_tokens=1, output_tokens=2, cost_micros=BEYOND_FLOAT, model=ODD),
        messages=(message, Message(role="user", content="")),
        took_ms=BEYOND_FLOAT,
        sleep_ms=7,
    )


def _odd_change() -> RunChange:
    return RunChange(
        status=RunStatus.QUEUED,
        reason="",
        counts=Counts(),
        stages=(),
        attempts=AttemptCounts(),
        tally=Tally(),
        stopping=False,
        previous=_previous(),
        step_journal=_journal(),
        step_waits=_waits(),
        failure=Failure(),
        actor="",
        on_behalf_of=NAME,
        blocked_run_id=NAME,
    )


def odd_events() -> tuple[Event, Event]:
    """Return two events: one with all fields, one with nearly none."""
    full = Event(
        number=1,
        version=1,
        type=EventType.PLAN_ACCEPTED,
        time_us=BEYOND_FLOAT,
        task_id=ODD,
        execution_id=ODD,
        question_id=ODD,
        message=ODD,
        actor=ODD,
        on_behalf_of=ODD,
        run=_odd_change(),
        tasks=(
            TaskChange(
                task_id=ODD,
                attempts=0,
                messages=0,
                previous=Previous(),
                journal=Journal(),
                waits=(),
                held_key="",
                key_run_id=NAME,
            ),
            TaskChange(task_id="x", failure=_failure(), result_run_id="", deduplicated_from=""),
        ),
        executions=(
            ExecutionChange(
                execution_id=ODD,
                kind=StepKind.PLAN,
                begun=False,
                usage=Usage(),
                messages=0,
                messages_after=0,
            ),
        ),
        questions=(b.question(ODD),),
        plan_revision=2,
    )
    return full, Event(number=2, version=1, type=EventType.RUN_STARTED)
