"""All planted bugs, and the invariants that none of them is about."""

from __future__ import annotations

from tests.mutants import (
    behind_doors,
    in_drivers,
    in_executor,
    in_loop,
    in_service,
    in_storage,
    in_watch,
)

BUGS = (
    *in_loop.BUGS,
    *in_executor.BUGS,
    *in_watch.BUGS,
    *in_service.BUGS,
    *in_drivers.BUGS,
    *behind_doors.BUGS,
    *in_storage.BUGS,
)
BY_NAME = {bug.name: bug for bug in BUGS}

WITHOUT = {
    "L5": "A stuck transaction is another program's: there is no line of ours to leave out.",
    "C3": "It is what E1 and S2 say with clocks that lie: the simulator plays those with stepped clocks.",
    "T5": "It is a bound on time, measured and not caught.",
    "D4": "SQLite itself takes a transaction back that finds the disk full; the proof fills one.",
    "R2": "What a drain may lose is what an acknowledgement before the commit loses: S3.",
}
"""By name, with the reason."""
