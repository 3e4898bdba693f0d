"""Asks the store who has the idempotency keys of tasks, reserves them, and wakes runs that wait for one.

A reservation is no lock: it names the run's commit on which it was decided. Its meaning is read
from that run (`_judge`), so that the reservation of a dead replica is replaced at once, and a valid
one never is. A run whose tasks have no keys causes no call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from stepwell.core.loop.context import KeyFound, KeyState
from stepwell.core.loop.state import RunState
from stepwell.core.loop.transition import Transition
from stepwell.core.port import NOBODY, Commit, KeySwap, Loaded, Reservation, Runtime, Store
from stepwell.core.records.errors import StoreError
from stepwell.core.records.states import TaskStatus
from stepwell.engine.hot_run import HotRun
from stepwell.engine.key_types import RunKey
from stepwell.engine.key_waits import KeyWait, KeyWaits
from stepwell.logger import get_logger

log = get_logger(__name__)

_ASKS_MAX = 8
"""The most questions for one transition: each answer may let further tasks with other keys be offered."""
_SWAPS_MAX = 4
"""The most swaps for one question: each may find that another run was faster."""
_UNKNOWN = KeyFound(state=KeyState.UNKNOWN)


class Keys:
    """The keys that the runs in this replica's memory ask for."""

    def __init__(self, store: Store, runtime: Runtime, waits: KeyWaits) -> None:
        self._store = store
        self._runtime = runtime
        self._waits = waits

    async def decide(
        self,
        key: RunKey,
        hot: HotRun,
        state: RunState,
        advanced: Callable[[dict[str, KeyFound]], Transition],
    ) -> Transition:
        """Return the transition once everything that it asks for is known.

        `advanced` makes the transition from the found keys. No wait follows its last call, so that
        the workers that it saw as free still are.
        """
        found: dict[str, KeyFound] = {}
        transition = advanced(found)
        for _ in range(_ASKS_MAX):
            if not transition.asked_keys:
                break
            pipeline_id = transition.run.spec.pipeline_id
            question = _Question(self._store, self._waits, key, pipeline_id, state)
            found |= await question.ask(transition.asked_keys, hot.reserved)
            transition = advanced(dict(found))
        return transition

    def committed(
        self, key: RunKey, hot: HotRun, before: Mapping[str, str], commit: Commit
    ) -> None:
        """Free the keys that a commit releases, and wake the runs that wait for this one.

        `before` has the keys that the commit's tasks held before it, by task.
        """
        swaps: list[KeySwap] = []
        if before:
            after = {task.task_id: task.held_key for task in commit.tasks}
            kept = set(after.values())
            given_up = {one for task_id, one in before.items() if not after[task_id]} - kept
            swaps = [
                KeySwap(key=one, before=reservation)
                for one in sorted(given_up)
                if (reservation := hot.reserved.pop(one, None)) is not None
            ]
        if swaps:
            pipeline_id = commit.run.spec.pipeline_id
            self._runtime.spawn(self._free(key, pipeline_id, swaps, commit), name="free keys")
        else:
            self._waits.committed(key, commit)

    async def _free(
        self, key: RunKey, pipeline_id: str, swaps: Sequence[KeySwap], commit: Commit
    ) -> None:
        try:
            await self._store.swap_keys(key[0], pipeline_id, swaps)
        except StoreError as error:
            # The next run that wants the key finds that it isn't held.
            log.info("reservations of keys were left", run_id=key[1], error=error.message)
        self._waits.committed(key, commit)


def held_keys(state: RunState, commit: Commit) -> dict[str, str]:
    """Return the keys that tasks of a commit hold before it is applied, by task."""
    if not state.graph.keys:
        return {}
    before = {task.task_id: state.tasks.get(task.task_id) for task in commit.tasks}
    return {name: task.held_key for name, task in before.items() if task and task.held_key}


class _Question:
    """One question of a run for several keys, at one version of that run."""

    def __init__(
        self, store: Store, waits: KeyWaits, run: RunKey, pipeline_id: str, state: RunState
    ) -> None:
        self._store = store
        self._waits = waits
        self._run = run
        self._pipeline_id = pipeline_id
        self._ours = Reservation(run_id=run[1], commit_id=state.commit_id)

    async def ask(
        self, asked: Mapping[str, bool], reserved: dict[str, Reservation]
    ) -> dict[str, KeyFound]:
        """Return the state of each key; keys that were reserved are noted in `reserved`."""
        found: dict[str, KeyFound] = {}
        swaps = [
            KeySwap(key=key, before=reserved.get(key, NOBODY), after=self._ours)
            if reserve and self._ours.commit_id
            else KeySwap(key=key)
            for key, reserve in asked.items()
        ]
        try:
            for _ in range(_SWAPS_MAX):
                swaps = await self._swap(swaps, found, reserved)
                if not swaps:
                    return found
        except StoreError as error:
            log.warning("keys could not be asked for", run_id=self._run[1], error=error.message)
        return dict.fromkeys(asked, _UNKNOWN) | found

    async def _swap(
        self,
        swaps: Sequence[KeySwap],
        found: dict[str, KeyFound],
        reserved: dict[str, Reservation],
    ) -> list[KeySwap]:
        """Add the results of these swaps to `found`; return those to be retried, with the current reservations."""
        again: list[KeySwap] = []
        stand = await self._store.swap_keys(self._run[0], self._pipeline_id, swaps)
        # Each run is read after its reservation: a commit that isn't its last one by then never
        # will be.
        loaded: dict[str, Loaded | None] = {}
        for swap, one in zip(swaps, stand, strict=True):
            reserves = swap.after != NOBODY
            if reserves and one == self._ours:
                reserved[swap.key] = one
                found[swap.key] = KeyFound(state=KeyState.OURS)
            elif one not in (NOBODY, self._ours) and (
                answer := await self._judge(swap.key, one, loaded)
            ):
                found[swap.key] = answer
            elif reserves:
                again.append(replace(swap, before=one))
            else:
                found[swap.key] = KeyFound(state=KeyState.FREE)
        return again

    async def _judge(
        self, key: str, reservation: Reservation, loaded: dict[str, Loaded | None]
    ) -> KeyFound | None:
        """Return the run that has the key by this reservation, or None if the reservation may be replaced."""
        run_id = reservation.run_id
        holder = (self._run[0], run_id)
        with self._waits.asking(holder):
            if run_id not in loaded:
                loaded[run_id] = await self._store.load(*holder)
            rows = loaded[run_id]
            if rows is None or (holder == self._run and rows.commit_id == self._ours.commit_id):
                # A task of this run that holds the key in these rows gives it up by this same
                # decision.
                return None
            task = next((one for one in rows.tasks if one.held_key == key), None)
            if task is None and rows.commit_id != reservation.commit_id:
                return None
            if task is not None and task.status is TaskStatus.COMPLETED and holder != self._run:
                return await self._result_of(run_id, task.result_id)
            # Only a state that is older than the store's asks for a key that its own run has.
            if holder != self._run:
                wait = KeyWait(holder, task.task_id if task is not None else "", key)
                self._waits.add(wait, self._run, rows.run.version)
        return KeyFound(state=KeyState.TAKEN, run_id=run_id)

    async def _result_of(self, run_id: str, execution_id: str) -> KeyFound | None:
        """Return the result of a completed task, or None if its run was just deleted."""
        payloads = await self._store.read_payloads(self._run[0], run_id, [execution_id])
        if not payloads and await self._store.get_run(self._run[0], run_id) is None:
            return None
        return KeyFound(
            state=KeyState.DONE,
            run_id=run_id,
            execution_id=execution_id,
            result=payloads[0].payload if payloads else None,
        )
