"""Calls of threads in the caller's process: the handle of the client, without a connection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from stepwell.core.port import Principal, Runtime
from stepwell.core.records.errors import StepwellError
from stepwell.embedded.arguments import ACTOR, check_name
from stepwell.embedded.drive import lent_executor
from stepwell.embedded.driver_stores import TENANT, AnyStore, acquire, release
from stepwell.embedded.transport import client_error
from stepwell.rpc.caller import set_caller
from stepwell.runtime import SystemRuntime
from stepwell.wire.validate import check
from stepwell_client.internal import Calls, ThreadHandle, list_threads
from stepwell_client.records import Thread


def _methods() -> dict[str, Any]:
    """Return the functions of the service that do the calls."""
    # Needs the server's settings, which an embedded run without these calls doesn't load.
    from stepwell.rpc.orchestrator import threads as methods  # noqa: PLC0415 - see above

    return {
        "GetThread": methods.get_thread,
        "ListThreads": methods.list_threads,
        "ListThreadMessages": methods.list_thread_messages,
        "AppendToThread": methods.append_to_thread,
        "SetThreadState": methods.set_thread_state,
        "SetThreadLabels": methods.set_thread_labels,
        "ForkThread": methods.fork_thread,
        "DeleteThread": methods.delete_thread,
    }


class _StoreCalls(Calls):
    """Calls the functions of the service; the store is open during each call."""

    def __init__(self, store: AnyStore, tenant_id: str, runtime: Runtime | None) -> None:
        check_name("tenant_id", tenant_id)
        self._store = store
        self._principal = Principal(subject=ACTOR, tenant_id=tenant_id, scopes=frozenset())
        self._runtime = runtime or SystemRuntime()

    async def call(self, method: str, request: Any) -> Any:
        try:
            check(request)
            store = await acquire(self._store, self._runtime, create=True)
            try:
                async with lent_executor(store, self._runtime) as executor:
                    set_caller(self._principal)
                    return await _methods()[method](executor, request)
            finally:
                await release(self._store, store)
        except StepwellError as error:
            raise client_error(error) from error

    async def change(self, method: str, request: Any) -> Any:
        request.request_id = request.request_id or self._runtime.new_id()
        return await self.call(method, request)


def thread(
    thread_id: str, *, store: AnyStore, tenant_id: str = TENANT, runtime: Runtime | None = None
) -> ThreadHandle:
    """Return a handle of a thread of a store: the one of `Client.thread`, with its calls, records and errors.

    Args:
        thread_id: The thread's id, as in `Orchestrator(…, thread=…)`.
        store: A URL, an open Store, a SQLiteStore or a MemoryStore: that of the thread's runs, which may be running. Each
            call opens it, unless this event loop has it open, and makes it if it is missing.
        tenant_id: The tenant of the thread's runs.
        runtime: Clock and random numbers, for tests.

    Raises:
        ValueError: `tenant_id` is no name.
    """
    return ThreadHandle(_StoreCalls(store, tenant_id, runtime), thread_id)


def threads(
    *,
    store: AnyStore,
    labels: Mapping[str, str] | None = None,
    page_size: int = 0,
    tenant_id: str = TENANT,
    runtime: Runtime | None = None,
) -> AsyncIterator[Thread]:
    """Yield the threads of a store, the newest first, without their states; the arguments are those of `thread`.

    `labels`: only those with all of these; `page_size` of them are read at once (0: 100).

    Raises:
        ValueError: `tenant_id` is no name.
    """
    return list_threads(_StoreCalls(store, tenant_id, runtime), labels, page_size)
