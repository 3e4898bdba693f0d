"""The table of the Store service's methods, drawn from the port's own signatures.

The remote driver, the servicer and the wrappers around a store all go by it: a method stands in the
port and in the protocol, and nowhere else. The port's `read_plan` is the RPC `ReadPlan`; its parameters
are the fields of `ReadPlanRequest`, and its result is the one field of `ReadPlanResponse`.
Where the two differ, `make generate` fails, as it does for any record and its message.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import NoneType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import Descriptor
from msgspec import NODEFAULT, defstruct

from stepwell.core import port
from stepwell.core.port import Page, Query, Store
from stepwell.core.records.model import Record
from stepwell_client.store.v1 import store_pb2

NOT_UNARY = ("subscribe", "close")
"""Methods of the port without a request and a response: the stream of hints, and the end."""
WRITES = frozenset(
    {
        *(
            "commit",
            "renew",
            "write_journal",
            "put_presence",
            "append_logs",
            "delete_run",
            "remove_logs",
        ),
        "swap_keys",
    }
)
"""Methods that change what is stored: begun, they are finished, also when the caller has gone."""

UNTYPED: Any = object
"""The base of classes whose methods are made from the table: to a type checker they have any method."""


def _descriptor(message: str) -> Descriptor:
    return cast("Descriptor", getattr(store_pb2, message).DESCRIPTOR)


def _kinds() -> dict[type[Record], str]:
    arms = _descriptor("PageRequest").oneofs_by_name["query"].fields
    return {getattr(port, cast("Descriptor", arm.message_type).name): arm.name for arm in arms}


KINDS: Mapping[type[Record], str] = _kinds()
"""Each kind of query, and the name of its field in a page's request and in its response."""


class Method:
    """One method of the port, with the records of its request and its response."""

    def __init__(self, name: str) -> None:
        """Read the method's signature.

        Raises:
            TypeError: its response has more than one field.
        """
        self.name = name
        self.rpc = "".join(word.capitalize() for word in name.split("_"))
        signature = inspect.signature(getattr(Store, name))
        hints = get_type_hints(getattr(Store, name))
        self.returned = hints.pop("return")
        self.parameters = tuple(hints)
        self.many = next((it for it, kind in hints.items() if get_origin(kind) is Sequence), "")
        """The parameter that is a list; empty: none is."""
        self.result = next((it.name for it in _descriptor(f"{self.rpc}Response").fields), "")
        """The response's field that holds the result; empty: there is none."""
        self.request = _record(
            f"{self.rpc}Request",
            {it: (kind, signature.parameters[it].default) for it, kind in hints.items()},
        )
        self.response = _record(f"{self.rpc}Response", self._fields_of_response())

    def _fields_of_response(self) -> dict[str, tuple[Any, Any]]:
        if self.returned is NoneType:
            return {}
        default = None if NoneType in get_args(self.returned) else inspect.Parameter.empty
        return {self.result: (self.returned, default)}

    def request_of(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Record:
        """Return a call's arguments as the record of its request."""
        given = {**dict(zip(self.parameters, args, strict=False)), **kwargs}
        if self.many:
            given[self.many] = tuple(given[self.many])
        return self.request(**given)

    def arguments_of(self, request: Record) -> dict[str, Any]:
        """Return a request's arguments by name."""
        return {name: getattr(request, name) for name in self.parameters}

    def response_of(self, request: Record, result: Any) -> Record:  # noqa: ARG002 - pages need it
        """Return a call's result as the record of its response."""
        if not self.result:
            return self.response()
        held = tuple(cast("list[Any]", result)) if isinstance(result, list) else result
        return self.response(**{self.result: held})

    def result_of(self, request: Record, response: Record) -> Any:  # noqa: ARG002 - pages need it
        """Return a call's result from the record of its response."""
        return getattr(response, self.result) if self.result else None


class PageMethod(Method):
    """`Store.page`: rows of each kind have a field of their own in the response."""

    def _fields_of_response(self) -> dict[str, tuple[Any, Any]]:
        rows = {arm: (Sequence[row_of(kind)], ()) for kind, arm in KINDS.items()}
        return {**rows, "cursor": (str, "")}

    def response_of(self, request: Record, result: Page[Any]) -> Record:
        """Return a page as the record of its response."""
        kind = KINDS[type(self.arguments_of(request)["query"])]
        return self.response(**{kind: result.items, "cursor": result.cursor})

    def result_of(self, request: Record, response: Record) -> Page[Any]:
        """Return a page from the record of its response."""
        fields = {name: getattr(response, name) for name in (*KINDS.values(), "cursor")}
        kind = KINDS[type(self.arguments_of(request)["query"])]
        return Page(items=fields[kind], cursor=fields["cursor"])


def row_of(kind: type[Record]) -> type[Record]:
    """Return the record of one row that a kind of query asks for."""
    bases: tuple[Any, ...] = getattr(kind, "__orig_bases__")  # noqa: B009 - typed for 3.12 only
    return get_args(bases[0])[0]


def _record(name: str, fields: Mapping[str, tuple[Any, Any]]) -> type[Record]:
    """Make a record: a list is a tuple there, and a page's query one of the kinds."""
    made: list[tuple[str, Any, Any]] = []
    for field, (kind, default) in fields.items():
        if get_origin(kind) is Sequence:
            kind = tuple[get_args(kind)[0], ...]
        elif get_origin(kind) is Query:
            kind = Union[tuple(KINDS)]  # noqa: UP007 - made of a tuple
        made.append((field, kind, NODEFAULT if default is inspect.Parameter.empty else default))
    struct = defstruct(name, made, bases=(Record,), frozen=True, kw_only=True, module=__name__)
    return cast("type[Record]", struct)


METHODS: Mapping[str, Method] = {
    name: (PageMethod if name == "page" else Method)(name)
    for name, value in vars(Store).items()
    if inspect.isfunction(value) and not name.startswith("_") and name not in NOT_UNARY
}
"""The unary methods of the port, by name."""


class RoutedStore(UNTYPED):
    """The base of stores that treat all methods of the table the same: each is a call of `call`."""

    async def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Do what the port's method of this name does."""
        raise NotImplementedError(method)


def _routed(name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def routed(self: RoutedStore, *args: Any, **kwargs: Any) -> Any:
        return await self.call(name, *args, **kwargs)

    routed.__name__, routed.__qualname__ = name, f"RoutedStore.{name}"
    return routed


for _name in METHODS:
    setattr(RoutedStore, _name, _routed(_name))
