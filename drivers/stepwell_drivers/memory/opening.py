"""Opens memory stores by their URL."""

from __future__ import annotations

from stepwell.core.port import Runtime, Store
from stepwell.core.records.errors import StoreRefused
from stepwell_drivers.memory.state import State
from stepwell_drivers.memory.store import MemoryStore

_named: dict[str, State] = {}


async def open_store(url: str, *, runtime: Runtime) -> Store:
    """Open `memory://` or `memory://NAME`. A shared store keeps the runtime that it was created with.

    Raises:
        StoreRefused: the URL says more than a name.
    """
    name = url.removeprefix("memory://")
    if name == url or any(mark in name for mark in "?#/@"):
        raise StoreRefused("a memory store is opened as memory:// or memory://NAME, with no more")
    if not name:
        return MemoryStore(State(runtime))
    state = _named.get(name)
    if state is None:
        state = _named[name] = State(runtime)

    def forget() -> None:
        _named.pop(name, None)

    return MemoryStore(state, on_last_close=forget)
