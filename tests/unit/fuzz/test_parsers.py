"""Every parser under hostile input: it says no in its own words, or takes it; never anything else.

A failing input is told by its number: `STEPWELL_FUZZ=17` plays that one alone, with each parser.
"""

from __future__ import annotations

import os
import time
from random import Random

import pytest

from tests.support.proofs import record
from tests.support.proofs.sizes import chunks
from tests.unit.fuzz.parsers import PARSERS

ONE = "STEPWELL_FUZZ"
CHUNK = 2_500
LOOP_S = 0.1
"""CPU time for which one input may keep the event loop from everybody else."""
SHARE = 0.8
"""The share of the inputs that go to the parsers; the others go to a server."""


def numbers(part: range) -> range:
    only = os.environ.get(ONE)
    return range(int(only), int(only) + 1) if only else part


def judged(name: str, number: int) -> bool:
    """Play one input; tells whether it was refused."""
    parser = PARSERS[name]
    given = parser.make(Random(f"{name} {number}"))
    # The best of some: what a busy machine or a collection of garbage adds is not the parser's.
    spent = LOOP_S
    for _ in range(3):
        began = time.thread_time()
        try:
            parser.parse(given)
            refused = False
        except parser.says_no:
            refused = True
        except Exception as error:
            error.add_note(f"{name}, input {number} ({ONE}={number}): {given!r:.2000}")
            raise
        spent = time.thread_time() - began
        if spent < LOOP_S:
            return refused
    raise AssertionError(
        f"{name}, input {number} ({ONE}={number}) took {spent:.2f} s: {given!r:.500}"
    )


@pytest.mark.proof
@pytest.mark.parametrize("part", chunks("fuzzed inputs", CHUNK), ids=lambda part: str(part[0]))
def test_no_input_breaks_a_parser(part: range) -> None:
    began = time.monotonic()
    inputs = refused = 0
    for number in numbers(range(part[0], part[0] + int(len(part) * SHARE / len(PARSERS)))):
        for name in PARSERS:
            refused += judged(name, number)
            inputs += 1
    figures = {"inputs": inputs, "refused": refused, "crashes": 0}
    command = "make proof ARGS='tests/unit/fuzz'"
    record.keep(record.Record("fuzz, parsers", command, figures, {}, time.monotonic() - began))


@pytest.mark.parametrize("name", PARSERS)
def test_a_parser_meets_inputs_that_it_takes_and_inputs_that_it_refuses(name: str) -> None:
    met = {judged(name, number) for number in range(150)}
    assert met == ({True} if name == "credentials" else {True, False})
