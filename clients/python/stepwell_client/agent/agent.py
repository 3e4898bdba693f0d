"""The agent: the functions that make plans, do tasks, reflect and synthesize.

A function takes the context and optionally the step's input, decoded as annotated:

    @agent.task("count")
    def count(ctx: TaskContext, text: str) -> dict[str, int]: ...

If the input's parameter has a default, a step without input is called without it.

Keyword-only parameters are left to the author. Functions that aren't async run in threads. Their
return values are encoded, see `records.payloads`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar, overload

from stepwell_client.agent.annotations import is_async, resolved, return_type
from stepwell_client.agent.input_schema import SCHEMA_BYTES_MAX, schema_of, text_of
from stepwell_client.enums import StepKind, to_wire
from stepwell_client.errors import Misconfigured
from stepwell_client.records.payloads import flaw_of
from stepwell_client.v1 import types_pb2

F = TypeVar("F", bound=Callable[..., object])

ANY = "*"
"""Any type, or any role."""
TYPED = frozenset({StepKind.TASK, StepKind.RECONCILE})
"""Kinds of step that are chosen by type and role."""

_EMPTY: Any = inspect.Parameter.empty


class Step:
    """A function of an agent with its calling convention, which is read from its signature once."""

    __slots__ = (
        "_returned",
        "annotation",
        "function",
        "has_default",
        "is_async",
        "manual_begin",
        "strict",
        "wants_input",
    )

    def __init__(
        self, function: Callable[..., object], *, manual_begin: bool = False, strict: bool = False
    ) -> None:
        self.function = function
        self._returned: tuple[Any, str | None] | None = None
        self.strict = strict
        self.manual_begin = manual_begin
        self.is_async = is_async(function)
        parameters = _positional(function)
        self.wants_input = len(parameters) == 2
        self.annotation = _resolve(function, parameters[1]) if self.wants_input else _EMPTY
        self.has_default = self.wants_input and parameters[1].default is not _EMPTY

    def returned(self) -> tuple[Any, str | None]:
        """Return the type of the function's value, and why no such value can be kept, or None; read when a step first runs.

        The type is Any if there is none, or it isn't known.
        """
        if self._returned is None:
            returns: Any = Any  # An annotation may be any text; a value must then be JSON.
            with suppress(Exception):
                returns = return_type(self.function)
            self._returned = returns, flaw_of(returns)
        return self._returned


def _positional(function: Callable[..., object]) -> list[inspect.Parameter]:
    name = getattr(function, "__qualname__", repr(function))
    parameters = list(inspect.signature(function).parameters.values())
    fit = [
        parameter
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    needed = [
        parameter
        for parameter in parameters[2:]
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if not fit or needed:
        raise Misconfigured(
            f"{name} must take the context and, if it wants, the step's input: "
            "`def f(ctx)` or `def f(ctx, text: str)`"
        )
    # The remaining parameters have defaults or are keyword-only, such as a partial's, and are left
    # to the author.
    return fit[:2]


def _resolve(function: Callable[..., object], parameter: inspect.Parameter) -> Any:
    """Return a parameter's type, also if it is written as a string."""
    annotation = parameter.annotation
    if annotation is parameter.empty:
        return Any
    try:
        return resolved(function, annotation)
    except NameError as error:
        name = getattr(function, "__qualname__", repr(function))
        raise Misconfigured(
            f"the type of {name}'s parameter {parameter.name!r} is not known here: {error}. "
            "Define it at the top of its module, before the function"
        ) from error


class Agent:
    """Functions by step. Serve them with a Worker, or run them in process."""

    def __init__(self, name: str = "agent", *, queues: Sequence[str] = ()) -> None:
        """`queues`: the queues that its workers serve unless they name others; empty: `default`."""
        if isinstance(queues, str):
            raise Misconfigured(f"queues is a list of names: queues=[{queues!r}]")
        self.name = name
        self.queues = tuple(queues)
        self._plan: Step | None = None
        self._input_schema = ""
        self._reflect: Step | None = None
        self._synthesize: Step | None = None
        self._tasks: dict[tuple[str, str], Step] = {}
        self._reconciles: dict[tuple[str, str], Step] = {}

    @property
    def kinds(self) -> tuple[StepKind, ...]:
        """The kinds of step that the agent has functions for."""
        steps = [
            (StepKind.PLAN, self._plan),
            (StepKind.TASK, self._tasks or None),
            (StepKind.REFLECT, self._reflect),
            (StepKind.SYNTHESIZE, self._synthesize),
            (StepKind.RECONCILE, self._reconciles or None),
        ]
        return tuple(kind for kind, step in steps if step is not None)

    @property
    def stages(self) -> tuple[StepKind, ...]:
        """The stages (REFLECT, SYNTHESIZE) of runs that this agent plans."""
        return tuple(kind for kind in self.kinds if kind in (StepKind.REFLECT, StepKind.SYNTHESIZE))

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles of the registered task and reconcile functions."""
        return tuple(sorted({role for _, role in (*self._tasks, *self._reconciles) if role}))

    def patterns(self, roles: Collection[str]) -> list[types_pb2.TaskPattern]:
        """Return patterns of the tasks that the agent does in these roles, by kind, type and role; `*` is any."""
        found: list[types_pb2.TaskPattern] = []
        for kind, steps in ((StepKind.TASK, self._tasks), (StepKind.RECONCILE, self._reconciles)):
            pairs = {(type_ or ANY, role) for type_, own in steps for role in _roles_of(own, roles)}
            found += [
                types_pb2.TaskPattern(kind=to_wire(kind), type=type_, role=role)
                for type_, role in sorted(pairs)
            ]
        return found

    def kinds_of(self, patterns: Collection[types_pb2.TaskPattern]) -> list[StepKind]:
        """Return the kinds of step that the agent does with these patterns.

        A kind whose functions all have other roles is left out, because without a pattern it would
        mean all steps of that kind.
        """
        done = {pattern.kind for pattern in patterns}
        return [kind for kind in self.kinds if kind not in TYPED or kind in done]

    @property
    def types(self) -> tuple[str, ...]:
        """The types of the registered task functions."""
        return tuple(sorted({name for name, _ in self._tasks if name}))

    @property
    def input_schema(self) -> str:
        """The JSON schema of a run's input, as text: the one given to `plan`, else that of the plan function's input.

        Empty if there is neither, or if it is larger than 64 KiB.
        """
        if self._input_schema or self._plan is None:
            return self._input_schema
        found = schema_of(self._plan.annotation)
        text = text_of(found) if found else ""
        return text if len(text.encode()) <= SCHEMA_BYTES_MAX else ""

    @overload
    def plan(self, function: F, /) -> F: ...
    @overload
    def plan(
        self, /, *, strict: bool = False, input_schema: Mapping[str, Any] | None = None
    ) -> Callable[[F], F]: ...
    def plan(
        self,
        function: F | None = None,
        /,
        *,
        strict: bool = False,
        input_schema: Mapping[str, Any] | None = None,
    ) -> F | Callable[[F], F]:
        """Register the function that makes plans: it returns a Plan, or tasks.

        `strict`: as for `task`. `input_schema`: the JSON schema of a run's input, at most 64 KiB,
        from which the console makes a form; inputs are not checked against it. Default: the schema
        of the function's annotated input.
        """
        if input_schema is not None:
            self._input_schema = _schema_text(input_schema)

        def register(function: F) -> F:
            self._plan = self._once(self._plan, function, "plan", strict=strict)
            return function

        return register if function is None else register(function)

    @overload
    def reflect(self, function: F, /) -> F: ...
    @overload
    def reflect(self, /, *, strict: bool = False) -> Callable[[F], F]: ...
    def reflect(
        self, function: F | None = None, /, *, strict: bool = False
    ) -> F | Callable[[F], F]:
        """Register the function that judges each iteration: it returns Finish, Continue or Replan.

        `strict`: as for `task`.
        """

        def register(function: F) -> F:
            self._reflect = self._once(self._reflect, function, "reflect", strict=strict)
            return function

        return register if function is None else register(function)

    @overload
    def synthesize(self, function: F, /) -> F: ...
    @overload
    def synthesize(self, /, *, strict: bool = False) -> Callable[[F], F]: ...
    def synthesize(
        self, function: F | None = None, /, *, strict: bool = False
    ) -> F | Callable[[F], F]:
        """Register the function that makes the run's result.

        `strict`: as for `task`.
        """

        def register(function: F) -> F:
            self._synthesize = self._once(self._synthesize, function, "synthesize", strict=strict)
            return function

        return register if function is None else register(function)

    @overload
    def task(self, type_: F, /) -> F: ...
    @overload
    def task(
        self,
        type_: str = "",
        /,
        *,
        role: str = "",
        manual_begin: bool = False,
        strict: bool = False,
    ) -> Callable[[F], F]: ...
    def task(
        self,
        type_: str | Callable[..., object] = "",
        /,
        *,
        role: str = "",
        manual_begin: bool = False,
        strict: bool = False,
    ) -> Callable[..., object]:
        """Register a function for tasks of a type, of a role, of both, or for all other tasks (`@agent.task`).

        A task goes to the closest match: by type and role, by type, by role, any. With
        `manual_begin` the function itself reports that an AT_MOST_ONCE task starts: `ctx.begin()`.
        With `strict`, an attempt fails if it ends without having made all recorded calls.
        """
        if callable(type_):
            return self.task()(type_)
        return _register(
            self._tasks, "tasks", type_, role, manual_begin=manual_begin, strict=strict
        )

    @overload
    def reconcile(self, type_: F, /) -> F: ...
    @overload
    def reconcile(self, type_: str = "", /, *, role: str = "") -> Callable[[F], F]: ...
    def reconcile(
        self, type_: str | Callable[..., object] = "", /, *, role: str = ""
    ) -> Callable[..., object]:
        """Register a function that finds out whether a lost AT_MOST_ONCE task took effect.

        The function is called for tasks with `reconcile=True`, chosen as for `task`, and returns
        Done, NotDone or Undecided.
        """
        if callable(type_):
            return self.reconcile()(type_)
        return _register(self._reconciles, "reconciling tasks", type_, role)

    def find(self, kind: int, type_: str = "", role: str = "") -> Step | None:
        """Return the function for a step, or None."""
        if kind in TYPED:
            steps = self._tasks if kind == StepKind.TASK else self._reconciles
            closest = steps.get((type_, role)) or steps.get((type_, ""))
            return closest or steps.get(("", role)) or steps.get(("", ""))
        if kind == StepKind.PLAN:
            return self._plan
        if kind == StepKind.REFLECT:
            return self._reflect
        return self._synthesize if kind == StepKind.SYNTHESIZE else None

    def known(self) -> str:
        """Return a readable list of the tasks that the agent has functions for."""
        return _listing(
            f"{name or 'any type'}{f' (role {role})' if role else ''}"
            for name, role in sorted(self._tasks)
        )

    @staticmethod
    def _once(
        before: Step | None, function: Callable[..., object], what: str, *, strict: bool
    ) -> Step:
        if before is not None:
            raise Misconfigured(f"the agent has a function for {what} already")
        return Step(function, strict=strict)


def _schema_text(schema: Mapping[str, Any]) -> str:
    try:
        text = text_of(schema)
    except (TypeError, ValueError) as error:
        raise Misconfigured(f"input_schema is no JSON: {error}") from error
    if (size := len(text.encode())) > SCHEMA_BYTES_MAX:
        raise Misconfigured(
            f"input_schema has {size:,} bytes of JSON, and at most {SCHEMA_BYTES_MAX:,} can be given"
        )
    return text


def _register(
    steps: dict[tuple[str, str], Step],
    what: str,
    type_: str,
    role: str,
    *,
    manual_begin: bool = False,
    strict: bool = False,
) -> Callable[[F], F]:
    def register(function: F) -> F:
        if (type_, role) in steps:
            raise Misconfigured(f"two functions for {what} of type {type_!r} and role {role!r}")
        steps[type_, role] = Step(function, manual_begin=manual_begin, strict=strict)
        return function

    return register


def _roles_of(own: str, roles: Collection[str]) -> Collection[str]:
    """Return the roles in which a function does steps; `own` is the role that it was registered for."""
    if own:
        return [own] if own in roles or ANY in roles else []
    return [ANY] if ANY in roles else ["", *roles]


def _listing(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
