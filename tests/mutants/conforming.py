"""The conformance suite as a check: its cases one after the other, on a driver that a bug is in.

The suite's cases are called here without pytest, so that a bug is in for exactly as long as they run.
A failing case is named for the invariants that it holds.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from stepwell_testkit.conformance.catalog import invariants_of
from stepwell_testkit.conformance.harness import Cases
from tests.contract.conformance.conftest import MemoryFactory
from tests.contract.conformance.urls import UrlFactory
from tests.mutants.bug import Caught, Unnoticed

CASE_S_MAX = 20.0
"""A case that takes longer hangs; that is how it fails."""


PROGRAMS = re.compile(r"_D1_")
"""Random programs are a check of their own."""


class Case(NamedTuple):
    """A case of the suite with its parameters."""

    owner: type[Cases]
    name: str
    given: Mapping[str, Any]


class Conforming(NamedTuple):
    """The cases of some invariants, on the stores of a factory."""

    driver: str = "memory"
    factory: Callable[[Path], UrlFactory] = MemoryFactory
    rounds: int = 1
    """How often they are played at the most: a race is not lost every time."""
    unit: str = "cases"

    @property
    def proof(self) -> str:
        """The suite on its driver."""
        return f"conformance suite, {self.driver}"

    def play(self, invariants: tuple[str, ...]) -> Caught:
        """Play the cases that are named for these until one fails."""
        tried = 0
        for case in list(cases_of(invariants)) * self.rounds:
            tried += 1
            again = partial(_again, self.factory, case)
            try:
                again()
            except Exception:
                return Caught(tuple(invariants_of(case.name)), case.name, tried, again)
        raise Unnoticed(f"not one of {tried} cases failed")


def cases_of(invariants: tuple[str, ...]) -> Iterator[Case]:
    """Return the suite's cases that are named for one of these, but for those that play programs."""
    for owner in Cases.__subclasses__():
        for name, function in vars(owner).items():
            if not set(invariants).isdisjoint(invariants_of(name)) and not PROGRAMS.search(name):
                for given in _parameters(function):
                    yield Case(owner, name, given)


def _parameters(function: Any) -> Iterator[dict[str, Any]]:
    marks = [mark for mark in getattr(function, "pytestmark", ()) if mark.name == "parametrize"]
    names = [mark.args[0] for mark in marks]
    for values in product(*(list(mark.args[1]) for mark in marks)):
        yield dict(zip(names, values, strict=True))


def _again(factory: Callable[[Path], UrlFactory], case: Case) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_play(factory, case, Path(folder)))


async def _play(make: Callable[[Path], UrlFactory], case: Case, folder: Path) -> None:
    factory = make(folder)
    function = getattr(case.owner(), case.name)
    wanted = inspect.signature(function).parameters
    given = dict(case.given)
    try:
        async with asyncio.timeout(CASE_S_MAX):
            if "store" in wanted:
                given["store"] = await factory.open()
            if "open_store" in wanted:
                given["open_store"] = factory
            await function(**given)
    except (pytest.fail.Exception, pytest.skip.Exception) as told:
        # They are no `Exception`, so that tests don't catch them by accident; here they are a result.
        raise AssertionError(str(told)) from told
    finally:
        await _leave_nothing()
        await factory.close()


async def _leave_nothing() -> None:
    """End what a case that failed in its middle has left running."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
