"""Protocol limits that a worker checks by itself, so that a violation fails its own step."""

from __future__ import annotations

from stepwell_client.records.clean_text import storable_bytes

PAYLOAD_BYTES_MAX = 1024 * 1024
PLAN_BYTES_MAX = 3 * 1024 * 1024
PROGRESS_BYTES_MAX = 16 * 1024
PROMPT_BYTES_MAX = 256 * 1024
RESPONSE_BYTES_MAX = 1024 * 1024
MESSAGES_PER_OUTCOME_MAX = 256
ENTRY_MESSAGES_BYTES_MAX = 256 * 1024
"""The messages of one journal entry, together."""
MESSAGE_BYTES_MAX = 1024 * 1024
"""One message of a conversation."""
FAILURE_BYTES_MAX = 64 * 1024
"""A failure's message or its details, each."""
LOG_TEXT_BYTES_MAX = 16 * 1024
LOG_BYTES_PER_EXECUTION_MAX = 4 * 1024 * 1024
LOG_ENTRY_BYTES = 64
"""The size that an entry of a log counts with besides its text."""
LEVEL_CHARS_MAX = 128
ROLE_CHARS_MAX = 128
KIND_CHARS_MAX = 128
REASON_BYTES_MAX = 4 * 1024
VIOLATION_BYTES_MAX = 1024
"""A violation's field or its description, each."""
VIOLATIONS_MAX = 100

OUTCOME_BYTES_MAX = 4 * 1024 * 1024 - 64 * 1024
"""An outcome or a recording by itself, with room for what surrounds it in a message of 4 MiB."""
BATCH_BYTES_MAX = 3 * 1024 * 1024
"""The size of a batch in one message, unless a single item is larger."""
ITEMS_PER_MESSAGE_MAX = 1_000
RESULT_TOO_LARGE = "RESULT_TOO_LARGE"
"""The kind of a failure of what is larger than one of these."""
CONCURRENCY_MAX = 500
"""Running steps and as many outcomes not acknowledged make at most 1,000 held leases."""


def clip(text: str, bytes_max: int, *, keep_end: bool = False) -> str:
    """Return text as the protocol keeps it: storable, and of at most so many bytes.

    Longer text loses its beginning (`keep_end`: a traceback is most telling at its end) or its end.
    """
    data = storable_bytes(text)
    if len(data) > bytes_max:
        mark = "…".encode()
        room = bytes_max - len(mark)
        data = mark + data[-room:] if keep_end else data[:room] + mark
    return data.decode("utf-8", "ignore")
