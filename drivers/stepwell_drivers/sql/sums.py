"""The sums of what leases recorded, as rows of `lease_sums`."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.core.records.journal import Totals
from stepwell.core.records.model import Usage
from stepwell_drivers.sql.columns import Values

SUMS = ("entries", "bytes", "messages", "input_tokens", "output_tokens", "cost_micros")
"""The columns of a lease's sums."""


def totals_of(sums: Sequence[int]) -> Totals:
    """Return the sums of their columns."""
    entries, size, messages, input_tokens, output_tokens, cost_micros = sums
    usage = Usage(input_tokens=input_tokens, output_tokens=output_tokens, cost_micros=cost_micros)
    return Totals(entries=entries, bytes=size, messages=messages, usage=usage)


def sums_of(totals: Totals) -> Values:
    """Return the columns of sums."""
    usage = totals.usage
    return (
        *(totals.entries, totals.bytes, totals.messages),
        *(usage.input_tokens, usage.output_tokens, usage.cost_micros),
    )
