"""Both clients and both handles: the same words, every option in a signature, records in place of messages."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import pytest

from stepwell_client import (
    Client,
    RunHandle,
    SyncClient,
    SyncRunHandle,
    SyncWatch,
    Watch,
)
from stepwell_client.internal import ForkOptions, StartOptions


def methods(kind: type) -> dict[str, Callable[..., Any]]:
    """Return the public methods of a class, inherited ones too."""
    return {
        name: one
        for name, one in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }


def parameters(method: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    """Return the parameters of a method with their kinds and defaults, without `self`."""
    found = inspect.signature(method).parameters.values()
    return [(one.name, one.kind, one.default) for one in found if one.name != "self"]


@pytest.mark.parametrize(("plain", "sync"), [(Client, SyncClient), (RunHandle, SyncRunHandle)])
def test_synchronous_methods_are_those_of_the_asynchronous_class(plain: type, sync: type) -> None:
    theirs, ours = methods(plain), methods(sync)

    assert set(ours) == set(theirs)
    for name, method in ours.items():
        assert parameters(method) == parameters(theirs[name]), name


def test_clients_are_made_with_the_same_options() -> None:
    sync = {one for one in parameters(SyncClient.__init__) if one[0] != "channel"}

    assert sync == set(parameters(Client.__init__))


def test_handles_methods_are_the_clients_without_the_runs_id() -> None:
    clients, handles = methods(Client), methods(RunHandle)
    of_a_run = {
        name
        for name, method in clients.items()
        if parameters(method) and parameters(method)[0][0] == "run_id"
    }

    assert of_a_run - set(handles) == {"get", "payloads", "run"}
    for name in of_a_run & set(handles) - {"wait"}:
        assert parameters(handles[name]) == parameters(clients[name])[1:], name


@pytest.mark.parametrize("kind", [Client, SyncClient, RunHandle, SyncRunHandle, Watch, SyncWatch])
def test_no_method_has_options_that_a_signature_hides(kind: type) -> None:
    for name, method in [("__init__", kind.__init__), *methods(kind).items()]:
        kinds = {one.kind for one in inspect.signature(method).parameters.values()}
        assert inspect.Parameter.VAR_KEYWORD not in kinds, name
        assert inspect.Parameter.VAR_POSITIONAL not in kinds, name


@pytest.mark.parametrize("kind", [Client, SyncClient, RunHandle, SyncRunHandle])
def test_no_method_returns_a_message_of_the_protocol(kind: type) -> None:
    for name, method in methods(kind).items():
        returned = str(inspect.signature(method).return_annotation)
        assert returned != str(inspect.Signature.empty), name
        assert "_pb2" not in returned, name
        assert "Message" not in returned or name == "messages", name


@pytest.mark.parametrize("name", ["start", "fork", "list", "purge", "watch", "logs", "tasks"])
def test_each_option_has_a_sentence(name: str) -> None:
    method = methods(Client)[name]
    documented = inspect.getdoc(method) or ""

    for option, _, _ in parameters(method):
        assert f"    {option}: " in documented, option


@pytest.mark.parametrize(("name", "options"), [("start", StartOptions), ("fork", ForkOptions)])
def test_calls_with_messages_take_the_same_options(name: str, options: type) -> None:
    ours = {one for one, _, _ in parameters(methods(Client)[name])} - {"goal", "run_id"}

    assert ours == set(get_type_hints(options)) - {"goal"}
