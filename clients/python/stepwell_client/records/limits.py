"""Protocol limits that a worker checks itself, so that a violation fails only the step that caused it."""

from __future__ import annotations

from stepwell_client.records.clean_text import storable_bytes

PAYLOAD_BYTES_MAX = 1024 * 1024
JOURNAL_ENTRIES_MAX = 10_000
JOURNAL_BYTES_MAX = 64 * 1024 * 1024
PLAN_BYTES_MAX = 3 * 1024 * 1024
PROGRESS_BYTES_MAX = 16 * 1024
PROMPT_BYTES_MAX = 256 * 1024
RESPONSE_BYTES_MAX = 1024 * 1024
MESSAGES_PER_OUTCOME_MAX = 256
ENTRY_MESSAGES_BYTES_MAX = 256 * 1024
"""The most bytes of messages in one journal entry."""
MESSAGE_BYTES_MAX = 1024 * 1024
"""The most bytes of one message of a conversation."""
THREAD_MESSAGES_MAX = 100
"""The most messages that one step appends to its run's thread."""
THREAD_WRITE_BYTES_MAX = 1024 * 1024
"""The most bytes of their contents together."""
THREAD_STATE_BYTES_MAX = 64 * 1024
FAILURE_BYTES_MAX = 64 * 1024
"""The most bytes of a failure's message, and of its details."""
LOG_TEXT_BYTES_MAX = 16 * 1024
LOG_BYTES_PER_EXECUTION_MAX = 4 * 1024 * 1024
LOG_ENTRY_BYTES = 64
"""The size that a log entry counts in addition to its text."""
LEVEL_CHARS_MAX = 128
ROLE_CHARS_MAX = 128
KIND_CHARS_MAX = 128
REASON_BYTES_MAX = 4 * 1024
VIOLATION_BYTES_MAX = 1024
"""The most bytes of a violation's field, and of its description."""
VIOLATIONS_MAX = 100

OUTCOME_BYTES_MAX = 4 * 1024 * 1024 - 64 * 1024
"""The most bytes of one outcome or recording, which leaves room for the rest of a 4 MiB message."""
BATCH_BYTES_MAX = 3 * 1024 * 1024
"""The most bytes of a batch in one message, unless a single item is larger."""
ITEMS_PER_MESSAGE_MAX = 1_000
RESULT_TOO_LARGE = "RESULT_TOO_LARGE"
"""The kind of a failure because something exceeds one of these limits."""
CONCURRENCY_MAX = 500
"""The most concurrent steps; together with as many unacknowledged outcomes they make at most 1,000 leases."""


def clip(text: str, bytes_max: int, *, keep_end: bool = False) -> str:
    """Return text as the protocol accepts it: storable, and cut to at most `bytes_max` bytes.

    Longer text loses its end, or with `keep_end` its beginning, because a traceback's end tells
    most.
    """
    data = storable_bytes(text)
    if len(data) > bytes_max:
        mark = "…".encode()
        room = bytes_max - len(mark)
        data = mark + data[-room:] if keep_end else data[:room] + mark
    return data.decode("utf-8", "ignore")
