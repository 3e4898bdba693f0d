"""A store in front of a store: every call goes through one method, which a test may override."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepwell.core.port import Hint, Store
from stepwell.wire.store import RoutedStore


class StoreProxy(RoutedStore):
    """The Store port over another store.

    A subclass overrides `call`, or single methods of the port.
    """

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    async def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call the port's method of this name."""
        return await getattr(self.inner, method)(*args, **kwargs)

    def subscribe(self, hint: Hint) -> Callable[[], None]:
        return self.inner.subscribe(hint)

    async def close(self) -> None:
        await self.inner.close()
