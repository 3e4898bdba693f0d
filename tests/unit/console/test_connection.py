"""The console's connection builds on uvicorn's, which promises nothing about its methods' names."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from stepwell.console import serving

CONNECTION: Any = serving._Connection
OWN = {"_abort"}
OVERRIDDEN = sorted(
    name
    for name, value in vars(CONNECTION).items()
    if inspect.isfunction(value) and name not in OWN
)


@pytest.mark.parametrize("name", OVERRIDDEN)
def test_method_that_is_overridden_is_one_of_uvicorn_s_with_its_parameters(name: str) -> None:
    theirs = inspect.signature(getattr(H11Protocol, name))
    ours = inspect.signature(getattr(CONNECTION, name))
    assert list(ours.parameters) == list(theirs.parameters)


@pytest.mark.parametrize("name", ["data_received", "handle_events"])
def test_upgrade_is_asked_about_and_bytes_are_read_where_we_step_in(name: str) -> None:
    source = inspect.getsource(getattr(H11Protocol, name))
    called = {"data_received": "self.handle_events()", "handle_events": "self._should_upgrade()"}
    assert called[name] in source


def test_fields_that_are_used_are_those_of_uvicorn() -> None:
    made = inspect.getsource(H11Protocol.__init__)
    for name in ("app_state", "conn", "cycle", "server_state", "transport"):
        assert f"self.{name}" in made
    assert "if self.disconnected" in inspect.getsource(RequestResponseCycle)
