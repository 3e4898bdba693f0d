"""The place in a step's code: its scopes and the enclosing call.

A context variable holds the place, so tasks, branches of `asyncio.gather` and threads of calls each
have their own.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from stepwell_client.agent.activities import Activity
from stepwell_client.records.limits import KIND_CHARS_MAX, clip
from stepwell_client.v1 import types_pb2


class Output:
    """Usage and messages that are not stored yet."""

    __slots__ = ("messages", "usage")

    def __init__(self) -> None:
        self.usage: types_pb2.Usage | None = None
        self.messages: list[types_pb2.Message] = []


class CodeRun:
    """One run of a piece of a step's code: of its function, or of a node of a graph.

    Calls are counted in a run of code, and a key is used once in it. Only the worker's event loop
    uses the object.
    """

    __slots__ = ("counts", "free")

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.free: list[str] = []
        """Keys of failed calls that may be made again."""


class Frame:
    """A place in a step's code."""

    __slots__ = ("activity", "at_most_once", "key", "output", "prefix", "run", "step")

    def __init__(
        self,
        step: object,
        prefix: str,
        run: CodeRun,
        *,
        key: str = "",
        activity: Activity | None = None,
        output: Output | None = None,
        at_most_once: bool = False,
    ) -> None:
        self.step = step
        """The attempt of the code: code of one step may run another step."""
        self.prefix = prefix
        """The prefix of the keys of calls made here."""
        self.run = run
        self.key = key
        """The innermost enclosing call; empty if there is none."""
        self.activity = activity
        self.output = output
        """The output of that call."""
        self.at_most_once = at_most_once
        """True if an enclosing call is AT_MOST_ONCE."""

    def scope(self, prefix: str, run: CodeRun | None = None) -> Frame:
        """Return the same place within a scope, optionally in another run of its code."""
        return Frame(
            self.step,
            prefix,
            run or self.run,
            key=self.key,
            activity=self.activity,
            output=self.output,
            at_most_once=self.at_most_once,
        )


CURRENT: ContextVar[Frame | None] = ContextVar("stepwell_frame", default=None)


@contextmanager
def code_run() -> Generator[None]:
    """Run the code within as a separate run: in its scope, its calls get the same keys as those of another run."""
    frame = CURRENT.get()
    token = CURRENT.set(frame and frame.scope(frame.prefix, CodeRun()))
    try:
        yield
    finally:
        CURRENT.reset(token)


def current_key() -> str:
    """Return the key of the innermost enclosing call; empty if there is none."""
    frame = CURRENT.get()
    return frame.key if frame is not None else ""


def frame_of(step: object) -> Frame | None:
    """Return the current place in this step, or None outside of its scopes and calls."""
    frame = CURRENT.get()
    return frame if frame is not None and frame.step is step else None


def add_usage(total: types_pb2.Usage, used: types_pb2.Usage) -> None:
    """Add to a usage, and list the names of the models."""
    models = [one for one in total.model.split(", ") if one]
    new = [one for one in used.model.split(", ") if one and one not in models]
    if new:
        total.model = clip(", ".join([*models, *new]), KIND_CHARS_MAX)
    total.input_tokens += used.input_tokens
    total.output_tokens += used.output_tokens
    total.cost_micros += used.cost_micros
