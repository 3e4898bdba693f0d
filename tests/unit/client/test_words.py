"""Both clients and both handles: the same words, a sentence for every option, records in place of messages."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from itertools import pairwise
from typing import Any, get_type_hints

import pytest

from stepwell_client import (
    Client,
    RunHandle,
    Security,
    SyncClient,
    SyncRunHandle,
    SyncWatch,
    Watch,
)
from stepwell_client.agent.children import ChildOptions
from stepwell_client.calls.cursors import LogOptions, WatchOptions, WatchRunsOptions
from stepwell_client.calls.requests import (
    CommandOptions,
    DeleteOptions,
    ForkOptions,
    ListOptions,
    PurgeOptions,
    StartOptions,
)


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


@pytest.mark.parametrize("kind", [Client, SyncClient])
def test_clients_leave_what_concerns_one_run_to_its_handle(kind: type) -> None:
    taking = {
        name
        for name, method in methods(kind).items()
        if parameters(method) and parameters(method)[0][0] == "run_id"
    }

    assert taking == {"run"}


@pytest.mark.parametrize("kind", [Client, SyncClient, RunHandle, SyncRunHandle, Watch, SyncWatch])
def test_options_that_a_signature_leaves_out_are_those_of_a_typed_dict(kind: type) -> None:
    for name, method in [("__init__", kind.__init__), *methods(kind).items()]:
        for one in inspect.signature(method).parameters.values():
            assert one.kind is not inspect.Parameter.VAR_POSITIONAL, name
            if one.kind is inspect.Parameter.VAR_KEYWORD:
                assert str(one.annotation).startswith("Unpack["), name


@pytest.mark.parametrize("kind", [Client, SyncClient, RunHandle, SyncRunHandle])
def test_no_method_returns_a_message_of_the_protocol(kind: type) -> None:
    for name, method in methods(kind).items():
        returned = str(inspect.signature(method).return_annotation)
        assert returned != str(inspect.Signature.empty), name
        assert "_pb2" not in returned, name
        assert "Message" not in returned or name == "messages", name


@pytest.mark.parametrize(
    "options",
    [
        *(StartOptions, ForkOptions, DeleteOptions, CommandOptions, ListOptions, PurgeOptions),
        *(WatchOptions, WatchRunsOptions, LogOptions, Security, ChildOptions),
    ],
)
def test_each_option_has_a_sentence(options: type) -> None:
    (made,) = ast.parse(inspect.getsource(options)).body
    assert isinstance(made, ast.ClassDef)

    documented = {
        one.target.id
        for one, sentence in pairwise(made.body)
        if isinstance(one, ast.AnnAssign)
        and isinstance(one.target, ast.Name)
        and isinstance(sentence, ast.Expr)
    }

    inherited = get_type_hints(DeleteOptions) if options is CommandOptions else {}
    assert documented == get_type_hints(options).keys() - inherited.keys()
