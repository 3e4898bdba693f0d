"""Servers for the documents: one in this process, and `stepwell serve` as its users start it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from stepwell.config import AuthSettings, GrpcSettings, Settings, StoreSettings
from stepwell.rpc.server import Server
from tests.docs.shell import Shell


@pytest.fixture
async def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    """Return a server in this process that clients find by themselves, in an empty folder."""
    token_file = tmp_path / "state" / "stepwell" / "token"
    token_file.parent.mkdir(parents=True, mode=0o700)
    settings = Settings(
        store=StoreSettings.model_validate({"url": f"sqlite:///{tmp_path}/server.db"}),
        grpc=GrpcSettings(port=0),
        auth=AuthSettings(token_file=token_file),
    )
    monkeypatch.chdir(tmp_path)
    async with Server(settings) as made:
        monkeypatch.setenv("STEPWELL_TARGET", made.addresses[0])
        monkeypatch.setenv("STEPWELL_TOKEN_FILE", str(token_file))
        yield made


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """Yield a shell in an empty folder; what it started ends with it."""
    with Shell(tmp_path) as made:
        yield made
