"""Bugs of watching: what a watcher is shown, when, and what it costs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any

from msgspec.structs import replace

from stepwell.engine import runs
from stepwell.watch import notifier
from stepwell.watch import runs as watch
from tests.mutants.planting import Swap, hidden
from tests.mutants.shelf import Shelf
from tests.mutants.simulated import Simulated
from tests.simulation.simulator import watcher

BUGS = Shelf()


def _paged(change: Callable[[Any, Any, int], Any]) -> list[Swap]:
    """Change every page that a watcher reads."""
    pages: Any = hidden(watch, "_Pages")
    honest: Callable[..., Any] = pages.read

    async def read(self: Any, after: int) -> Any:
        return change(self._store, await honest(self, after), after)

    return [(pages, "read", read)]


@BUGS.put("cursor-skips", Simulated(), "E3")
def _cursor_skips() -> list[Swap]:
    """A watcher that is woken reads what is newest, and not what comes after its cursor."""

    def newest(_store: Any, page: Any, after: int) -> Any:
        if not after or not page.events:
            return page
        last = page.events[-1].version
        return replace(page, events=tuple(e for e in page.events if e.version == last))

    return _paged(newest)


@BUGS.put("reconnect-repeats", Simulated(), "E3")
def _reconnect_repeats() -> list[Swap]:
    """A watch that goes on behind an event begins with that event."""
    pages: Any = hidden(watch, "_Pages")
    honest: Callable[..., Any] = pages.read
    return [(pages, "read", lambda self, after: honest(self, max(0, after - 1)))]


@BUGS.put("stamped-where-it-is-read", Simulated(), "E2")
def _stamped_where_it_is_read() -> list[Swap]:
    """Each replica gives an event the time at which it reads it, so that two watchers see two events."""

    def stamped(store: Any, page: Any, _after: int) -> Any:
        now_us = hidden(store, "_runtime").now_us()
        return replace(page, events=tuple(replace(e, time_us=now_us) for e in page.events))

    return _paged(stamped)


@BUGS.put("event-before-its-commit", Simulated(), "E4", "E1", "E3")
def _event_before_its_commit() -> list[Swap]:
    """Events go to the watchers of this replica from memory, and to the store a moment later."""
    shown: dict[tuple[str, str], tuple[Any, ...]] = {}
    commit: Callable[..., Any] = hidden(runs.Runs, "_commit")
    pages: Any = hidden(watch, "_Pages")
    honest: Callable[..., Any] = pages.read

    async def publish_and_commit(self: Any, key: Any, hot: Any, transition: Any, made: Any) -> Any:
        shown[key] = made.events
        return await commit(self, key, hot, transition, made)

    async def read(self: Any, after: int) -> Any:
        found = await honest(self, after)
        live = shown.get(self._run, ())
        if live and live[0].number == found.latest + 1 and after <= found.latest:
            return replace(found, events=(*found.events, *live), latest=live[-1].number)
        return found

    return [(runs.Runs, "_commit", publish_and_commit), (pages, "read", read)]


@BUGS.put("cursor-from-the-future", Simulated(), "E5")
def _cursor_from_the_future() -> list[Swap]:
    """A cursor that no event has reached is taken: its owner waits, and misses what comes until then."""

    def reached(_store: Any, page: Any, after: int) -> Any:
        return replace(page, latest=max(page.latest, after))

    return _paged(reached)


@BUGS.put("progress-overtakes", Simulated(), "E7")
def _progress_overtakes() -> list[Swap]:
    """A sign of life tells the run's last event, and not the last one that was sent on this stream."""
    honest = watch.watch_run

    async def watch_run(store: Any, *rest: Any, **asked: Any) -> AsyncGenerator[Any, None]:
        async for batch in honest(store, *rest, **asked):
            run = await store.get_run(asked["tenant_id"], asked["run_id"])
            if run is not None and batch.events:
                yield watch.Batch(after=run.last_event)
            yield batch

    return [(watch, "watch_run", watch_run), (watcher, "watch_run", watch_run)]


@BUGS.put("page-splits-a-commit", Simulated(), "E8")
def _page_splits_a_commit() -> list[Swap]:
    """A page ends after so many events, wherever in a commit that is."""

    def cut(_store: Any, page: Any, _after: int) -> Any:
        return replace(page, events=page.events[:1], ended=page.ended and len(page.events) <= 1)

    return _paged(cut)


@BUGS.put("watch-without-poll", Simulated(), "E10", "L3")
def _watch_without_poll() -> list[Swap]:
    """A watcher waits for a notification and for nothing else; one that is lost is never made up for."""

    async def wait(_self: Any, changed: Any, _timeout_ms: float) -> bool:
        await changed.wait()
        changed.clear()
        return True

    return [(notifier.Notifier, "wait", wait)]
