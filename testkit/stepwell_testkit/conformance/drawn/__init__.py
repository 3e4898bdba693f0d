"""D1: programs of calls, drawn by Hypothesis, on a driver and on the reference.

    subject = Subject(my_store_factory)
    await Explorer(subject).explore(from_seed=1, programs=100, steps=50)

A failing program is shrunk, printed with the command that replays it, and raised as
`ProgramFailed`. The package names no driver: it takes a `StoreFactory`, also on the command line
(`python -m stepwell_testkit.conformance.drawn --help`).
"""

from __future__ import annotations

from stepwell_testkit.conformance.drawn.calls import Program
from stepwell_testkit.conformance.drawn.machine import Explorer, ProgramFailed, replay
from stepwell_testkit.conformance.drawn.subject import Subject

__all__ = ["Explorer", "Program", "ProgramFailed", "Subject", "replay"]
