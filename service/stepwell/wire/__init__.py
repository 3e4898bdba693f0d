"""Records to messages and back: the one place where the two meet.

Both ways keep everything: bytes, empty against absent, integers up to 64 bits, microseconds.

    run: Run = to_record(response.run)
    response.run.CopyFrom(to_message(run))      # or, without the copy:
    fill(run, response.run)

`wire.validate` checks the limits of a request's fields; all who accept requests or their like call it.
"""

from stepwell.wire.records import RECORDS, fill, to_message, to_record

__all__ = ["RECORDS", "fill", "to_message", "to_record"]
