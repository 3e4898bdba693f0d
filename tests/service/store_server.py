"""A Store service behind the gate, on a real grpc.aio server with a free port of its own."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc.aio

from stepwell.core.port import Principal, Store
from stepwell.core.records.limits import STORE_MESSAGE_BYTES_MAX
from stepwell.rpc.admission import GateLimits
from stepwell.rpc.auth import Credential, TokenAuthenticator
from stepwell.rpc.gate import Gate
from stepwell.rpc.metrics import RpcMetrics
from stepwell.rpc.scopes import STORE
from stepwell.rpc.store import StoreService
from stepwell.runtime import SystemRuntime
from stepwell_client.store.v1 import store_pb2_grpc

TOKEN = "stw_of-the-store-service"
FOREIGN_TOKEN = "stw_of-a-worker-of-acme"
OPTIONS = [
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", STORE_MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", STORE_MESSAGE_BYTES_MAX),
]


class StoreServer:
    """Serves one store; `close` lets go of the port, not of the store."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.runtime = SystemRuntime()
        self.service = StoreService(store, self.runtime)
        self.token_file = folder / "store-token"
        self.token_file.write_text(TOKEN + "\n", encoding="ascii")
        self.address = ""
        self._server: grpc.aio.Server | None = None

    @property
    def url(self) -> str:
        place = self.address if self.address.startswith("/") else f"/{self.address}"
        return f"grpc:/{place}?token_file={self.token_file}"

    async def start(
        self,
        address: str = "127.0.0.1:0",
        *,
        interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
    ) -> StoreServer:
        gate = Gate(
            TokenAuthenticator(
                [_credential(TOKEN, frozenset({STORE})), _credential(FOREIGN_TOKEN, {"worker"})],
                self.runtime,
            ),
            self.runtime,
            RpcMetrics(),
            GateLimits(receive_bytes_max=STORE_MESSAGE_BYTES_MAX),
        )
        options: list[tuple[str, Any]] = list(OPTIONS)
        self._server = grpc.aio.server(interceptors=[*interceptors, gate], options=options)
        store_pb2_grpc.add_StoreServicer_to_server(self.service, self._server)
        port = self._server.add_insecure_port(address)
        self.address = address.rpartition(":")[0] + f":{port}" if port > 1 else address
        await self._server.start()
        return self

    async def close(self) -> None:
        # A write that a failed test left waiting must not hold up those after it.
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                await self.service.close()
        await self.kill()

    async def kill(self) -> None:
        """Cut all connections, as a process that dies does."""
        if self._server is not None:
            await self._server.stop(None)


def _credential(token: str, scopes: set[str] | frozenset[str]) -> Credential:
    digest = hashlib.sha256(token.encode()).digest()
    return Credential(digest, Principal("test", "acme", frozenset(scopes)))
