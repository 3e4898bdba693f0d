"""Records of runs that belong together: the place of a child run, a thread, the numbers of letters between runs, and
the signals that a run keeps.
"""

from __future__ import annotations

from stepwell.core.records.record import Record

CANCEL, PAUSE, RESUME = "CANCEL", "PAUSE", "RESUME"
"""Names of letters to all children of a step or a run."""


class ChildOf(Record, frozen=True, kw_only=True):
    """The place of a child run in its tree of runs."""

    run_id: str = ""
    """The run whose step started it. Empty: it is no child."""
    task_id: str = ""
    """The task of that step; empty: another kind of step."""
    question_id: str = ""
    """The question of that run that waits for the child's end."""
    root_run_id: str = ""
    """The run at the root of the tree."""
    depth: int = 0
    """The number of runs above it."""


class UnwrittenLetters(Record, frozen=True, kw_only=True):
    """Letters to children of a run that its later commits write, because one commit has room for only so many."""

    kind: str
    """The name of their entries: CANCEL, PAUSE or RESUME."""
    task_ids: tuple[str, ...] = ()
    """With CANCEL: the tasks whose children they go to; "" among them: another kind of step. Empty: all steps."""
    until_us: int = 0
    """Children that were started after this get none."""
    after: str = ""
    """The question of the last child that has its letter; further ones follow in the order of these ids."""


class Letters(Record, frozen=True, kw_only=True):
    """The numbers of a run's letters to other runs; the letters are entries of its journal `letters`."""

    first: int = 1
    """The first that isn't delivered."""
    next: int = 1
    """The number of the next letter."""
    unwritten: tuple[UnwrittenLetters, ...] = ()
    """Further letters, in this order. Some of those that are written aren't delivered then."""


class Signals(Record, frozen=True, kw_only=True):
    """The signals that a run keeps for calls to take. Their values are in its journal `signals`."""

    kept: int = 0
    bytes: int = 0
    last: int = 0
    """The number of the last one that was kept."""
    taken: dict[str, int] = {}
    """The number of the last letter with one, by the run that sent it."""
    shown: int = 0
    """The number of the last one that the newest attempt at a PLAN or REFLECT step was shown."""
    steering: int = 0
    """The number of those kept whose names are in `reflect_on`."""
    early: bool = False
    """The REFLECT step began before the tasks were settled."""
    reflections: int = 0
    """The number of REFLECT steps of this iteration that have ended."""


class Thread(Record, frozen=True, kw_only=True):
    """The counts of a thread."""

    working: str = ""
    """The run of it that works. Empty: none does."""
    joined: int = 0
    """The number of runs that were started in it."""
    messages: int = 0
    """The number of its messages, which is the number of the last one."""
    bytes: int = 0
    """The size of the contents of its messages."""
    state: int = 0
    """The version of its state. 0: it was never set."""
    taken: int = 0
    """The number of the last letter that it took from the run that works."""
    forked_from: str = ""
    """The thread that it was made from as a fork."""
    forked_at: int = 0
    """The number of its messages that are that thread's. While it has fewer, they are being copied."""
    labels: dict[str, str] = {}
