"""Records to messages and back: the one place where the two meet.

Both ways keep everything: bytes, empty against absent, integers up to 64 bits, microseconds.

    run: Run = to_record(message)
    message = to_message(run)
    fill(run, response.run)     # the same without a copy

`wire.records` has these three. Their functions are generated: `scripts/conversions` writes `wire/conversions_pb2.py`.
`wire.validate` checks the limits of a request's fields; all who accept requests or their like call it.
"""
