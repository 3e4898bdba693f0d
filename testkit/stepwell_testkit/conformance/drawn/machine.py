"""Lets Hypothesis draw programs call by call and shrink failing ones.

Drawing and shrinking run in a separate thread, the stores on the caller's event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import msgspec
from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from stepwell.runtime import SystemRuntime
from stepwell_testkit.conformance.drawn import drawing as d
from stepwell_testkit.conformance.drawn.calls import Call, Program
from stepwell_testkit.conformance.drawn.compare import Differs
from stepwell_testkit.conformance.drawn.player import Player
from stepwell_testkit.conformance.drawn.subject import Subject

SHRINK_S_MAX = 30.0
UNHEALTHY = (
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
    HealthCheck.too_slow,
    HealthCheck.large_base_example,
)
"""Programs are large and slow by design."""


class ProgramFailed(AssertionError):
    """A program on which a driver and the reference differ; the message has its replay command."""

    def __init__(
        self, subject: Subject, program: Program, log: list[str], error: Exception
    ) -> None:
        lines = [f"{at:4d}  {text}" for at, text in enumerate(log, 1)]
        cause = str(error) if isinstance(error, Differs) else f"{type(error).__name__}: {error}"
        command = (
            f"python -m stepwell_testkit.conformance.drawn {subject.option} --replay {program.text}"
        )
        head = "a driver and the reference differ after these calls:"
        super().__init__("\n".join([head, *lines, cause, f"replay: {command}"]))
        self.program = program
        self.size = (len(program.calls), len(msgspec.msgpack.encode(program)))


class _Enough(BaseException):
    """The time for shrinking is over."""


class Explorer:
    """Many programs on one subject, from one seed."""

    def __init__(
        self,
        subject: Subject,
        *,
        shrink_s: float = SHRINK_S_MAX,
    ) -> None:
        self.subject = subject
        self.smallest: ProgramFailed | None = None
        self._number = 0
        self._shrink_s = shrink_s
        self._shrink_until = 0.0
        self._clock = SystemRuntime()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def explore(self, from_seed: int, *, programs: int, steps: int) -> None:
        """Play this many programs.

        Raises:
            ProgramFailed: a program failed; this is the smallest one that was found in time.
        """
        self._loop = asyncio.get_running_loop()
        await asyncio.to_thread(self._draw, from_seed, programs, steps)
        if self.smallest is not None:
            raise self.smallest

    def _draw(self, from_seed: int, programs: int, steps: int) -> None:
        class Machine(_Machine):
            explorer = self

        chosen = settings(
            max_examples=programs,
            stateful_step_count=steps,
            database=None,
            deadline=None,
            report_multiple_bugs=False,
            suppress_health_check=UNHEALTHY,
            phases=[Phase.generate, Phase.shrink],
            verbosity=Verbosity.quiet,
            print_blob=False,
        )
        try:
            run_state_machine_as_test(seed(from_seed)(Machine), settings=chosen)
        except (Exception, _Enough):
            # The smallest program is a better message than Hypothesis'.
            if self.smallest is None:
                raise

    def wait(self, work: Coroutine[object, object, None]) -> None:
        """Run work on the event loop, and wait for it in this thread."""
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def next_number(self) -> int:
        """Return the number of a new program."""
        if self.smallest is not None and self._clock.monotonic() > self._shrink_until:
            raise _Enough
        self._number += 1
        return self._number

    def failed(self, failed: ProgramFailed) -> None:
        """Keep a failure if it is the smallest so far; the first one starts the time for shrinking."""
        if self.smallest is None:
            self._shrink_until = self._clock.monotonic() + self._shrink_s
        if self.smallest is None or failed.size <= self.smallest.size:
            self.smallest = failed


class _Machine(RuleBasedStateMachine):
    """One program, for Hypothesis."""

    explorer: Explorer

    def __init__(self) -> None:
        super().__init__()
        self.number = self.explorer.next_number()
        self.calls: list[Call] = []
        self.player: Player | None = None
        self.over = False

    @initialize(call=d.commit_calls)
    def first_call(self, call: Call) -> None:
        """Every program has a run."""
        self._play(call)

    @rule(call=d.any_calls)
    def call(self, call: Call) -> None:
        """The next call."""
        self._play(call)

    def teardown(self) -> None:
        """Compare the final states, and leave nothing behind."""
        try:
            if not self.over:
                self._watched(self._finish)
        finally:
            if self.player is not None:
                self.explorer.wait(self.player.close())

    def _play(self, call: Call) -> None:
        self.calls.append(call)
        self._watched(lambda: self._one(call))

    async def _one(self, call: Call) -> None:
        if self.player is None:
            self.player = await Player.start(self.explorer.subject, self.number)
        await self.player.play(call)

    async def _finish(self) -> None:
        if self.player is not None:
            await self.player.finish()

    def _watched(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        """Run the work; a failure is kept before Hypothesis sees it."""
        try:
            self.explorer.wait(work())
        except Exception as error:
            self.over = True
            program = Program(number=self.number, calls=tuple(self.calls))
            log = self.player.log if self.player is not None else []
            self.explorer.failed(ProgramFailed(self.explorer.subject, program, log, error))
            raise


async def replay(subject: Subject, program: Program) -> None:
    """Play one program on a new store.

    Raises:
        ProgramFailed: it fails.
    """
    await subject.drop()
    player = await Player.start(subject, program.number)
    try:
        for call in program.calls:
            await player.play(call)
        await player.finish()
    except Exception as error:
        raise ProgramFailed(subject, program, player.log, error) from error
    finally:
        await player.close()
