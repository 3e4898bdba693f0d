"""The enums of the `stepwell.v1` protocol, generated from proto/: never edited."""

from __future__ import annotations

from stepwell_client.word import Word


class RunStatus(Word):
    """Status of a run. The last three are ends; only FAILED can be left, by ResumeRun."""

    UNSPECIFIED = 0
    """None. In a filter: refused."""
    QUEUED = 1
    """Started; no step of it has been leased yet."""
    RUNNING = 2
    """Steps of it are leased, or ready for a worker."""
    WAITING = 3
    """Nothing is leased or ready; it waits for an answer, for an unknown outcome to be settled or for the end of a
    sleep.
    """
    PAUSED = 4
    """The run accepts outcomes of running steps, and starts no others."""
    SUCCEEDED = 5
    """The run has reached its end; final."""
    FAILED = 6
    """The run has failed; ResumeRun gives it a new allowance of attempts."""
    CANCELLED = 7
    """The run was cancelled; final."""


class Phase(Word):
    """Phase of the loop that a run is in. A failed, paused or cancelled run keeps its phase."""

    UNSPECIFIED = 0
    """None."""
    PLANNING = 1
    """A plan is being made."""
    EXECUTING = 2
    """The plan's tasks are being done."""
    REFLECTING = 3
    """The results of the iteration are being judged."""
    SYNTHESIZING = 4
    """The run's own result is being made."""
    DONE = 5
    """Over: if and only if the run SUCCEEDED."""


class StepKind(Word):
    """Kind of step that a worker is asked to do. REFLECT and SYNTHESIZE are the stages that a run may have."""

    UNSPECIFIED = 0
    """None. In a list: refused."""
    PLAN = 1
    """Make a plan for the goal."""
    TASK = 2
    """Do one task of the plan."""
    REFLECT = 3
    """Judge the iteration: finish, continue with another plan, or plan again."""
    SYNTHESIZE = 4
    """Make the run's result from those of its tasks."""
    RECONCILE = 5
    """Find out the outcome of an AT_MOST_ONCE task whose worker was lost after it began."""


class TaskStatus(Word):
    """Status of a task. The last four are settled."""

    UNSPECIFIED = 0
    """None."""
    PENDING = 1
    """The task waits for its dependencies or for a place among `max_parallel`."""
    READY = 2
    """Offered: an execution of it waits for a worker, or for its back-off to end."""
    RUNNING = 3
    """A worker has a lease on an execution of it."""
    BLOCKED = 4
    """The task waits for an answer, the end of a sleep, a budget, or the settlement of an unknown outcome."""
    COMPLETED = 5
    """Done; its result is kept."""
    FAILED = 6
    """Its attempts are spent, or a failure was not to be retried."""
    SKIPPED = 7
    """A task that it depends on failed, and that task's policy skips its dependents."""
    CANCELLED = 8
    """Its run was cancelled, or a new plan left it out."""


class ExecutionStatus(Word):
    """Status of one attempt at a step. READY, LEASED and UNKNOWN_OUTCOME are open."""

    UNSPECIFIED = 0
    """None."""
    READY = 1
    """Waits for a worker, or for its delay to end."""
    LEASED = 2
    """A worker has it."""
    COMPLETED = 3
    """Its outcome was accepted."""
    FAILED = 4
    """Its worker reported a failure, or an outcome that was refused."""
    TIMED_OUT = 5
    """Its attempt's time ran out."""
    LOST = 6
    """Its lease expired without an outcome."""
    RELEASED = 7
    """Handed back, or withdrawn before a worker had it; spends no attempt."""
    CANCELLED = 8
    """The attempt was cancelled."""
    NEEDS_ANSWER = 9
    """The attempt asked a person; the answer starts the next attempt."""
    UNKNOWN_OUTCOME = 10
    """An AT_MOST_ONCE step was begun and then lost; a late outcome may still settle it."""
    SUSPENDED = 11
    """Handed back to wait for a person, for a time or for a budget; spends no attempt."""


class QuestionStatus(Word):
    """Status of a question. Only an OPEN question can be answered."""

    UNSPECIFIED = 0
    """None."""
    OPEN = 1
    """The question waits for an answer."""
    ANSWERED = 2
    """The question was answered."""
    EXPIRED = 3
    """Nobody answered in time."""
    CANCELLED = 4
    """Its task or run is over."""


class QuestionKind(Word):
    """Kind of answer that a question wants."""

    UNSPECIFIED = 0
    """Stands for VALUE."""
    APPROVAL = 1
    """Yes or no."""
    VALUE = 2
    """Something to be written."""
    CHOICE = 3
    """One of the given choices."""
    AUTH = 4
    """Access to something, given elsewhere."""
    SIGNAL = 5
    """The next signal of the name that is its prompt: a call waits for it, and AnswerQuestion refuses it."""
    CHILD = 6
    """The end of the child run that its prompt names: a call waits for it, and AnswerQuestion refuses it."""


class ExpiryAction(Word):
    """Consequence of a question that expires unanswered."""

    UNSPECIFIED = 0
    """Stands for WAIT."""
    WAIT = 1
    """The question stays open."""
    DENY = 2
    """The task fails with the kind DENIED; it is not retried."""
    FAIL = 3
    """The task fails."""
    PAUSE = 4
    """The run is paused with QUESTION_EXPIRED."""


class OnFailure(Word):
    """Consequence of a task's failure for its run, once the task's attempts are spent."""

    UNSPECIFIED = 0
    """Stands for FAIL_RUN."""
    FAIL_RUN = 1
    """The run fails."""
    SKIP_DEPENDENTS = 2
    """The tasks that depend on it, at any distance, are skipped."""
    CONTINUE = 3
    """Dependents run and are shown the failure instead of a result."""


class Effect(Word):
    """Permission to run a step again after its worker was lost."""

    UNSPECIFIED = 0
    """Stands for IDEMPOTENT."""
    IDEMPOTENT = 1
    """The work may be repeated."""
    AT_MOST_ONCE = 2
    """Its worker sends Begin and starts when that is acknowledged. Lost before: it is run again. Lost
    after: UNKNOWN_OUTCOME.
    """


class Decision(Word):
    """Decision of a reflection."""

    UNSPECIFIED = 0
    """None. In an outcome: refused."""
    FINISH = 1
    """Stop iterating: on to SYNTHESIZING."""
    CONTINUE = 2
    """Go on with the plan that came with the decision."""
    REPLAN = 3
    """Plan again."""


class Finding(Word):
    """Finding of a reconcile handler, or of a person, about an unknown outcome."""

    UNSPECIFIED = 0
    """None. In a request: refused."""
    DONE = 1
    """The effect took place: the task is completed, with the result that came with the finding."""
    NOT_DONE = 2
    """The work did not take effect: the task runs again, and no attempt is spent."""
    UNDECIDED = 3
    """Nobody can tell: the task waits for a late outcome or for a person."""


class ForkMode(Word):
    """Degree to which a fork may change the plan."""

    UNSPECIFIED = 0
    """Stands for STRICT."""
    STRICT = 1
    """The plan is the one in force at that version."""
    PATCH = 2
    """Changed tasks run again, and what is built on them; unchanged completed ones are kept."""


class LogKind(Word):
    """Kind of an entry of a run's log."""

    UNSPECIFIED = 0
    """Stands for LINE."""
    LINE = 1
    """A line."""
    CHUNK = 2
    """A piece of what the step is producing. It stays once its execution has COMPLETED."""
    CUT = 3
    """Stands where something was left out, and says what."""


class PlanTrigger(Word):
    """Origin of a revision of a run's plan."""

    UNSPECIFIED = 0
    """None."""
    PLANNED = 1
    """The PLAN step of the first iteration made it."""
    CONTINUED = 2
    """A reflection that decided CONTINUE brought it."""
    REPLANNED = 3
    """A PLAN step made it, after a reflection that decided REPLAN or an answer that asked for it."""
    CALLER = 4
    """It came with the start of the run."""
    FORK = 5
    """It came with a fork."""
    TASK = 6
    """A task's outcome added tasks to the plan in force."""


class BlockedKind(Word):
    """Kind of thing that an unfinished run waits for."""

    UNSPECIFIED = 0
    """None was given. In a filter: refused."""
    NONE = 1
    """Nothing: a worker has a step of it, or it has ended."""
    WORKER = 2
    """A step is ready and no connected worker of its queue and version does it."""
    CAPACITY = 3
    """A step is ready and every worker that does it is busy."""
    QUESTION = 4
    """A person's answer."""
    BUDGET = 5
    """A higher budget."""
    TIMER = 6
    """Every ready step waits for a back-off or a start delay to end, and every suspended one for a sleep."""
    PAUSED = 7
    """ResumeRun."""
    UNKNOWN_OUTCOME = 8
    """A caller who tells the outcome of an AT_MOST_ONCE step."""
    KEY = 9
    """The end of a task of another run (`blocked_run_id`) that has the idempotency key of a task of its own."""
    SIGNAL = 10
    """A signal."""
    CHILD = 11
    """The end of a child run."""
    THREAD = 12
    """The end of the run of its thread that works now."""


class PauseReason(Word):
    """Reason for which a run is PAUSED."""

    UNSPECIFIED = 0
    """None was given."""
    NONE = 1
    """The run isn't paused."""
    REQUESTED = 2
    """PauseRun paused it."""
    BUDGET_EXHAUSTED = 3
    """A part of its budget is used up."""
    NO_PROGRESS = 4
    """The same plan gave the same results too often."""
    QUESTION_EXPIRED = 5
    """A question expired whose expiry pauses the run."""
    PARENT = 6
    """Its parent is paused, and it follows the parent's pauses."""


class FinishReason(Word):
    """Reason for which a run stopped iterating."""

    UNSPECIFIED = 0
    """None was given."""
    NONE = 1
    """The run has not stopped iterating."""
    FINISHED = 2
    """Reflection said finish, or the run has no reflection."""
    MAX_ITERATIONS = 3
    """The last iteration ended without a decision to finish."""
    STOPPED = 4
    """StopRun asked it to end after that iteration."""


class View(Word):
    """Amount that a read returns of each thing that it lists."""

    UNSPECIFIED = 0
    """Stands for BASIC."""
    BASIC = 1
    """Without what is large; the request says what that is."""
    FULL = 2
    """All of it."""


class Durability(Word):
    """Failures that an acknowledged commit survives, weakest first."""

    UNSPECIFIED = 0
    """None was given."""
    VOLATILE = 1
    """Nothing: it is gone with the process."""
    PROCESS = 2
    """`kill -9` of every process of the service and of the store."""
    POWER = 3
    """A power cut: it was fsynced."""
    NODE = 4
    """The loss of the machine: it is on another one too."""


class EventType(Word):
    """Type of an event: what happened to a run, in the past tense.
    
    Every event has `number`, `version`, `type` and `time`, and is a complete delta of what Run,
    Task, Execution and Question show: folding the events 1..n of a run over its RunSpec and its
    plans gives its rows at n. `Run.version` and `Run.last_event` follow from the event itself. The
    events of a commit stand in the order in which things happened. An event may change nothing that
    a caller sees.
    
    Beyond what its value lists below, an event carries what followed from it at once: in `tasks`
    those that it settled, or made PENDING again, and in `run` the `counts`. The last event of a
    commit also carries what the commit as a whole came to: in `executions` the steps that it offers,
    created READY with all their fields that aren't empty (`kind` is present), in `tasks` theirs with
    `status` READY and `attempts`, and in `run` `tasks_used`, the `step_attempt` of a PLAN, REFLECT
    or SYNTHESIZE step offered, `status`, `phase`, `blocked_on` and `blocked_since_time`. So the step
    that follows is created in the event that made it possible. A step that the same commit leases is
    created LEASED, in its EXECUTION_LEASED.
    
    Every event that a command made names the caller (`actor`, `on_behalf_of`), and the last of them
    has both in `run`, where they change.
    
    "Ended" means, in `executions`: the one of `execution_id` with its new `status`, `ended_time`
    and, where there are any, `usage`, `session`, `has_result`, `messages` and `messages_after`; in
    `tasks`, where it appended messages, `messages`; and in `run`: `usage`, where there is any. With
    an execution that was UNKNOWN_OUTCOME its RECONCILE step is CANCELLED, where one is open.
    Whatever ends an execution also carries `attempts` in `run`: how many have ended so, counted.
    """

    UNSPECIFIED = 0
    """None. In a filter: refused."""
    RUN_STARTED = 1
    """The run was created. Always event 1. `run`: `created_time`, `budget`; with a caller's plan also
    `stages`, and PLAN_ACCEPTED follows in the same commit.
    """
    EXECUTION_LEASED = 2
    """A worker was given a lease. `execution_id`, `task_id` of a TASK. `executions`: this one with
    `status` LEASED, `worker_id`, `leased_time`. `tasks` of a TASK: `status` RUNNING,
    `started_time` at its first lease. Where the commit that makes the step ready leases it, too,
    the execution is created here, with all its fields that aren't empty, and `tasks` has
    `attempts`. `run`: `started_time` at the first lease of all; `stages` with a PLAN step, as the
    worker has them, until the first plan.
    """
    EXECUTION_BEGUN = 3
    """The worker of an AT_MOST_ONCE step said that it starts. `execution_id`, `task_id`. `executions`: this one with
    `begun`.
    """
    EXECUTION_RELEASED = 4
    """Work was handed back; no attempt is spent. `execution_id`, `task_id` of a TASK, `message`: why. Ended,
    RELEASED. The step is offered again, unless the run is PAUSED, or PLANNING and it is a TASK: then `tasks` has
    its task with `status` PENDING.
    """
    EXECUTION_FAILED = 5
    """An attempt failed. `execution_id`, `task_id` of a TASK, `message`: the failure's. Ended, FAILED, with
    `failure`. What follows from it (TASK_RETRY_SCHEDULED, STEP_RETRY_SCHEDULED, TASK_FAILED or RUN_FAILED) is the
    next event of the same commit.
    """
    EXECUTION_TIMED_OUT = 6
    """An attempt's own time ran out: as EXECUTION_FAILED, with TIMED_OUT. Or its task's total time did: ended,
    TIMED_OUT, and TASK_FAILED follows in the same commit.
    """
    LEASE_LOST = 7
    """A lease expired without an outcome: as EXECUTION_FAILED, with LOST."""
    OUTCOME_UNKNOWN = 8
    """An AT_MOST_ONCE step was begun and then lost. `execution_id`, `task_id`, `message`: why. `executions`: this one
    with `status` UNKNOWN_OUTCOME and `unknown_time`. `tasks`: `status` BLOCKED. Or its RECONCILE steps have come
    to an end without an answer, and it is left to a person: then, where the last of them could not tell, in
    `executions` that one, ended, COMPLETED.
    """
    PLAN_ACCEPTED = 9
    """A plan is in force. `plan_revision`: which. `message`: the reason that came with it. Tasks of
    the plan that the run didn't have stand beside its others from now on, PENDING and with the
    plan's `revision`. `tasks`: those that the plan redefines, in full, and those that the plan
    leaves out and that weren't settled, CANCELLED with `ended_time`. `executions`: what was open
    of either, CANCELLED with `ended_time`; `questions`: what they asked, CANCELLED. `run`: `phase`
    EXECUTING, `iteration`, `plan_revision`, `counts`, `step_attempt` back to 0. From a PLAN step:
    ended, COMPLETED; from a REFLECT step REFLECTION_ACCEPTED has told of that.
    """
    PLAN_REJECTED = 10
    """A plan was refused: its attempt failed. As EXECUTION_FAILED; the `failure` lists the violations, by the path of
    the field.
    """
    TASK_COMPLETED = 11
    """A task is done. `execution_id`, `task_id`. Ended, COMPLETED. `tasks`: this one with `status` COMPLETED,
    `result_id`, `ended_time`. `run`: `counts`.
    """
    TASK_FAILED = 12
    """A task failed for good. `task_id`, `execution_id` of the last attempt where that is why, `message`: the
    failure's. `tasks`: this one with `status` FAILED, `failure`, `ended_time`; those that it skips, SKIPPED with
    `ended_time`. `run`: `counts`.
    """
    TASK_RETRY_SCHEDULED = 13
    """A task is to be tried again. `task_id`, `execution_id`: the attempt that was in vain.
    `executions`: the next one, created READY with `delay`. `tasks`: `status` READY, `attempts`; of
    a run that is PAUSED or PLANNING `status` PENDING and no execution.
    """
    STEP_RETRY_SCHEDULED = 14
    """A PLAN, REFLECT or SYNTHESIZE step is to be tried again. `execution_id`: the attempt that was
    in vain. `executions`: the next one, created READY with `delay`, and `run`: `step_attempt`; of
    a PAUSED run neither.
    """
    REFLECTION_ACCEPTED = 15
    """A reflection's decision was accepted. `execution_id`, `message`: the decision and its reason. Ended, COMPLETED.
    `run`: `reason`. ITERATION_COMPLETED follows in the same commit.
    """
    ITERATION_COMPLETED = 16
    """An iteration is over: a named checkpoint. `run`: where no other follows `finish_reason`, `phase` and
    `step_attempt` back to 0; where it is planned again both and `iteration`; with a plan from the reflection
    nothing, as PLAN_ACCEPTED follows in the same commit.
    """
    QUESTION_ASKED = 17
    """A step asked a person. `question_id`, `execution_id`, `task_id`, `message`: the question. Ended, NEEDS_ANSWER.
    `questions`: the question, OPEN. `tasks`: `status` BLOCKED, `question_id`.
    """
    QUESTION_ANSWERED = 18
    """A person answered. `question_id`, `task_id`. `questions`: the question, ANSWERED, with the answer. `tasks`:
    `status` PENDING, or READY where it is offered again at once; its `question_id` stays.
    """
    QUESTION_EXPIRED = 19
    """Nobody answered in time. `question_id`, `task_id`. Where its expiry denies or fails: `questions`: the question,
    EXPIRED; `tasks`: `question_id` back to empty; TASK_FAILED follows. `run`: what RUN_PAUSED carries, where it
    pauses.
    """
    BUDGET_RAISED = 20
    """The run may use up more. `run`: `budget`. `message`: why."""
    RUN_PAUSED = 21
    """The run was paused. `message`: why. `run`: `status` PAUSED, `pause_reason`, `reason`. `executions`: those that
    were READY, RELEASED with `ended_time`; `tasks`: theirs, PENDING. Where the run was PAUSED already and the
    budget's wall time is over now: nothing.
    """
    RUN_RESUMED = 22
    """A paused or failed run goes on. `message`: why. `run`: `status`, `pause_reason` back to NONE, `reason`; of a
    failed run `failure` back to none, `ended_time` back to zero. `tasks`: those to be run again, PENDING, with
    `failure`, `started_time` and `ended_time` taken back; where a FAIL_RUN failure is kept, those that depend on
    it, SKIPPED with `ended_time`.
    """
    RUN_SUCCEEDED = 23
    """The run came to its end; the last event. `run`: `status`, `phase` DONE, `result_id`, `ended_time`.
    `execution_id`: the SYNTHESIZE step, where there is that stage. Ended, COMPLETED.
    """
    RUN_FAILED = 24
    """The run failed. `message`: the failure's. `run`: `status`, `failure`, `ended_time`. `executions`: those still
    open, CANCELLED with `ended_time`; `tasks`: theirs, PENDING. `questions`: the open ones, CANCELLED. Only
    RUN_RESUMED can follow.
    """
    RUN_CANCELLED = 25
    """The run was cancelled; the last event. `message`: why. `run`: `status`, `reason`, `counts`, `ended_time`.
    `executions`: those still open, CANCELLED with `ended_time`. `tasks`: the unsettled ones, CANCELLED with
    `ended_time`. `questions`: the open ones, CANCELLED.
    """
    RUN_BLOCKED = 26
    """The run now waits for something else; nothing else happened. `run`: `status`, `blocked_on`, `blocked_since_time`."""
    RUN_FORKED = 27
    """The run was created as a fork. After RUN_STARTED, and after PLAN_ACCEPTED where there is a
    plan. `message`: the parent and its version. `run`: `phase`, `iteration`, `stages`,
    `step_attempt`, `finish_reason`, `reason`, `tasks_used`, `iterations_before`, `counts`.
    `tasks`: those whose numbers go on, and of those that are kept how they stand. `questions`:
    answers that a task has yet to be given.
    """
    OUTCOME_RESOLVED = 28
    """The outcome of an AT_MOST_ONCE step is known. `execution_id`, `task_id`, `message`: by whom,
    and what. Ended: COMPLETED, FAILED or RELEASED; of RELEASED `tasks` has its task with `status`
    PENDING; TASK_COMPLETED, TASK_FAILED or the next attempt follows. Where a RECONCILE step found
    it out: in `executions` that one too, ended, COMPLETED.
    """
    MESSAGES_APPENDED = 29
    """A worker appended to its task's conversation. `execution_id`, `task_id`. `executions`: this one with
    `messages`, and with `messages_after` at the first; `tasks`: `messages`.
    """
    TASK_DEDUPLICATED = 30
    """A task took the result that another one of the same idempotency key came to. `task_id`,
    `execution_id`, `message`: whose. `executions`: one that is created COMPLETED. `tasks`: as
    TASK_COMPLETED, with `deduplicated_from`. `run`: `counts`.
    """
    TASK_SKIPPED = 31
    """A task was skipped by hand. `task_id`, `message`: why. `executions`: its open one, CANCELLED. `questions`: the
    open ones, CANCELLED. `tasks`: this one and those that are skipped with it, SKIPPED with `ended_time`. `run`:
    `counts`.
    """
    TASK_RETRY_REQUESTED = 32
    """A task is to be run again, or now, by hand. `task_id`, `message`: why. `tasks`: this one and
    those that were skipped because of it, PENDING with `failure`, `started_time` and `ended_time`
    taken back. `run`: `counts`. Where it waited for a back-off, `executions` has that one,
    RELEASED, and the next one, created READY, and `tasks` its `attempts`, instead.
    """
    REPLAN_REQUESTED = 33
    """A person asked for another plan; follows QUESTION_ANSWERED in the same commit. The iteration in progress ends
    by it, without ITERATION_COMPLETED. `message`: why. `executions`: those that were READY, RELEASED; `tasks`:
    theirs, PENDING. `run`: `phase` PLANNING, `iteration`, `reason`, `step_attempt` back to 0. Of a run that was in
    PLANNING already: `executions`: its PLAN step, RELEASED or CANCELLED; `run`: `reason`.
    """
    STOP_REQUESTED = 34
    """The run is to end after the iteration in progress. `message`: why. `run`: `stopping`."""
    STEP_POISONED = 35
    """A step has ended three workers, the last of which held nothing else: it is not tried again. `execution_id`,
    `task_id`, `message`. After LEASE_LOST of the third; TASK_FAILED or RUN_FAILED with a failure of kind POISON
    follows in the same commit, or OUTCOME_UNKNOWN for a RECONCILE step.
    """
    STEP_SUSPENDED = 36
    """An attempt handed its step back, to wait. `execution_id`, `task_id`, `message`: for what. `executions`: it,
    SUSPENDED, with its usage; `tasks`: BLOCKED, with `waits`; of a step without a task `run`: `step_waits`.
    QUESTION_ASKED follows for each new question.
    """
    STEP_WOKEN = 37
    """The first of the things that a suspended step waits for is over: it may go on. `execution_id` of the attempt
    that waited, `task_id`, `message`: which. `tasks`: PENDING, without `waits`; or `run`.
    """
    JOURNAL_RENEWED = 38
    """A step's journal is emptied: what it recorded is not replayed any more, except AT_MOST_ONCE
    calls. `execution_id`, `task_id`, `message`: why.
    """
    JOURNAL_FORGOTTEN = 39
    """An entry was dropped from a step's journal. `execution_id`, `task_id`, `message`: its key."""
    WAIT_OPENED = 40
    """A call of a step waits for a signal or for a child run. `execution_id`, `task_id`, `question_id`, `message`: what for."""
    WAIT_EXPIRED = 41
    """No signal came in time for a call that waited. `task_id`, `question_id`, `message`: what for."""
    SIGNAL_RECEIVED = 42
    """A signal came; its value is in no event. `message`: its name. `actor`, `on_behalf_of`: who sent it. `question_id`,
    `task_id`: the wait of the call that took it at once; empty: it is kept.
    """
    SIGNAL_TAKEN = 43
    """A call took a signal that was kept. `message`: its name. `execution_id`, `task_id`: of the call."""
    CHILD_ENDED = 44
    """A child run has ended, or could not be started. `task_id`, `question_id`, `message`: the child's id and its
    status. `questions`: this one, ANSWERED. `run`: `usage`, with the child's.
    """
    LETTERS_DELIVERED = 45
    """Letters of the run to other runs were delivered, and are kept no longer."""
    RUN_JOINED = 46
    """An event of a thread: somebody started a run in the thread. `message`: the run's id."""
    RUN_LEFT = 47
    """An event of a thread: a run of the thread has ended, or the server could not start it. `message`: the run's id."""
    RUN_LET_GO = 48
    """An event of a run: its thread lets it work. `run`: `blocked_on`."""
    RUN_STEERED = 49
    """An event of a thread: a start with STEER became a signal to the run that works. `message`: that run's id."""
    THREAD_WRITTEN = 50
    """An event of a thread: messages were appended, or its state was set. Or an event of a run: an outcome did so to its thread,
    `execution_id`, `task_id`. `message`: how many messages, and whether the state.
    """
    PLACE_CHANGED = 51
    """A run above this one is deleted: this one has no parent any more, or another root. `message`: the id of the root of its tree."""
    GROUP_GATHERED = 52
    """Enough tasks of a group have completed: its other tasks are SKIPPED, with what depends on them alone. `task_id`: the task
    that gathers it. `message`: how many completed, and how many are skipped.
    """


class VersionMatch(Word):
    """Comparison of workers' versions with a run's pin."""

    UNSPECIFIED = 0
    """None was given: ANY."""
    ANY = 1
    """Every worker will do, one without a version too."""
    EXACT = 2
    """The worker's version must be equal to this text."""
    AT_LEAST = 3
    """The worker's version must be this one or a later one. Both consist of numbers with dots between them, which are
    compared one by one: 1.10 is later than 1.9.
    """


class JournalMark(Word):
    """Kind of a journal entry."""

    UNSPECIFIED = 0
    """END."""
    END = 1
    """The call is done; the entry has its value."""
    BEGIN = 2
    """The function of an AT_MOST_ONCE call is about to run."""
    TRY = 3
    """The function raised; the entry has the failure. It is shown, and never replayed."""
    WAIT = 4
    """A sleep began. Its end is stamped once."""


class WaitKind(Word):
    """Kind of thing that a suspended step waits for."""

    UNSPECIFIED = 0
    """None was given."""
    SLEEP = 1
    """The end of a sleep."""
    QUESTION = 2
    """A person's answer."""
    BUDGET = 3
    """A higher budget."""
    SIGNAL = 4
    """A signal."""
    CHILD = 5
    """The end of a child run."""


class OnBusy(Word):
    """The effect of StartRun in a thread in which another run works. Where none works, the new run starts at once."""

    UNSPECIFIED = 0
    """The same as ENQUEUE."""
    ENQUEUE = 1
    """The new run waits until all runs that were started before it have ended."""
    REJECT = 2
    """No run is started. StartRun fails with FAILED_PRECONDITION and the reason THREAD_BUSY."""
    INTERRUPT = 3
    """The server cancels the run that works, and runs that wait because they were started with INTERRUPT. The new run
    works next.
    """
    STEER = 4
    """The run that works receives a signal named `steer` with the goal and the input, and no run is started. If that run
    ends before a call of it has received the signal, the new run is started after all, in the order of the starts.
    """


class WatchEndReason(Word):
    """Reason for which a watch ended."""

    UNSPECIFIED = 0
    """None was given."""
    FINISHED = 1
    """The run has ended and all its events were sent."""
    DRAINING = 2
    """The replica is going down: watch again, from where it stopped."""
    SLOW_CONSUMER = 3
    """A write was blocked for 60 s: read faster, and watch again from where it stopped."""
    PURGED = 4
    """The run was deleted."""


class ForkViolationKind(Word):
    """Way in which a fork doesn't fit its run."""

    UNSPECIFIED = 0
    """None was given."""
    TASK_REMOVED = 1
    """STRICT: a task of the plan in force is missing."""
    TASK_ADDED = 2
    """STRICT: a task is new."""
    DEFINITION_CHANGED = 3
    """STRICT: a task is defined otherwise."""
    DEPENDENCY_CHANGED = 4
    """STRICT: a task depends on others than it did."""
    EFFECT_REPEATED = 5
    """An AT_MOST_ONCE task that was completed, or whose outcome is not known at that version, would run
    again.
    """
    ROLE_MISSING = 6
    """No connected worker of the queue fills a role that a task to be run asks for, while others of the
    queue are connected.
    """
    PLAN_MISSING = 7
    """There is no plan to go on with at that version, and none came with the request."""


class LeaseStatus(Word):
    """Status of a worker's lease."""

    UNSPECIFIED = 0
    """None was given."""
    LIVE = 1
    """The worker has the lease, which the heartbeat has prolonged."""
    LOST = 2
    """The worker has lost the lease, and should stop: an outcome would be refused."""


class AckStatus(Word):
    """The service's verdict on an outcome or a begin."""

    UNSPECIFIED = 0
    """None was given."""
    ACCEPTED = 1
    """The outcome is committed."""
    LEASE_LOST = 2
    """The lease is another's, or the step is over, and not by this very outcome: nothing was changed. Don't
    send it again. An outcome that is sent again after its commit gets its first answer again.
    """
    REJECTED = 3
    """The outcome broke a limit or didn't fit its step: the attempt counts as failed. Don't send it again."""


class WorkEndReason(Word):
    """Reason for which a worker's stream ended."""

    UNSPECIFIED = 0
    """None was given."""
    REPLACED = 1
    """A newer instance of the same worker is here: do not connect again."""
    DRAINING = 2
    """The replica is going down: connect again, keep the leases."""


class EntryStatus(Word):
    """Result of one entry."""

    UNSPECIFIED = 0
    """None was given."""
    ACCEPTED = 1
    """The entry is stored."""
    MISMATCH = 2
    """Its name has another content already, which stays."""
    REJECTED = 3
    """The entry broke a limit."""
