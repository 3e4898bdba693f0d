"""Limits of the service. A field's comment in the protocol quotes its limit."""

from __future__ import annotations

RUN_ID_CHARS_MAX = 36
TASK_ID_CHARS_MAX = 64
NAME_CHARS_MAX = 128
"""Tenant, pipeline, queue, role, type, worker and executor names, label keys."""
LABEL_VALUE_CHARS_MAX = 256
LABELS_MAX = 32
REQUEST_ID_CHARS_MAX = 128
GOAL_BYTES_MAX = 64 * 1024
TITLE_BYTES_MAX = 1024
PROMPT_BYTES_MAX = 256 * 1024
"""A task's prompt in a plan; also the prompt that an outcome reports."""
RESPONSE_BYTES_MAX = 1024 * 1024
REASON_BYTES_MAX = 4 * 1024
FAILURE_BYTES_MAX = 64 * 1024
"""A failure's message or its details, each."""
PAYLOAD_BYTES_MAX = 1024 * 1024
MEDIA_TYPE_CHARS_MAX = 128
PROGRESS_BYTES_MAX = 16 * 1024
MESSAGES_PER_OUTCOME_MAX = 256
CALL_KEY_CHARS_MAX = 512
"""The key of a call within its step's journal."""
JOURNAL_NAME_CHARS_MAX = 128
JOURNAL_ENTRIES_MAX = 10_000
"""Entries of a step's journal, in one generation."""
JOURNAL_BYTES_MAX = 64 * 1024 * 1024
"""Values, messages and failures of a step's journal together, in one generation."""
JOURNAL_PAGE_BYTES_MAX = 1024 * 1024
"""Values of a step's journal in an assignment, or in one page of ReadJournal or ListJournal."""
ENTRY_MESSAGES_BYTES_MAX = 256 * 1024
"""Messages of one journal entry together."""
CALL_TRIES_MAX = 1_000_000
DIGEST_CHARS_MAX = 64
WAITS_MAX = 100
"""Waits of a suspended step."""
OPEN_CALLS_MAX = 10_000
"""Calls of one step that wait for signals or child runs."""
SIGNALS_MAX = 1_000
"""Signals that a run keeps for calls to take."""
SIGNALS_BYTES_MAX = 16 * 1024 * 1024
"""Values of the signals that a run keeps together."""
SIGNALS_SHOWN_MAX = 100
"""Kept signals that a PLAN or REFLECT step is shown."""
SIGNALS_SHOWN_BYTES_MAX = 1024 * 1024
"""Values of the signals that such a step is shown."""
CHILDREN_MAX = 10_000
"""Child runs that one run starts."""
CHILD_DEPTH_MAX = 16
"""Runs above a child."""
THREAD_WAITING_MAX = 1_000
"""Runs that wait in one thread for those before them."""
THREAD_START_BYTES_MAX = 1024 * 1024
"""Goal, input and plan of a run that is started in a thread."""
THREAD_STEERS_MAX = 64
"""Starts in one thread that became signals to the run that works."""
THREAD_STEER_BYTES_MAX = 256 * 1024
"""Goal, input and plan of each of them."""
LETTERS_MAX = 10_000
"""Letters of a run that aren't delivered; with them it starts no further child, and sends none a signal."""
LETTERS_PER_COMMIT_MAX = 1_000
"""Letters that one commit writes; letters to further children of a run are written by the next ones."""
CHILD_INPUT_BYTES_MAX = 1024 * 1024
"""Goal, input and plan of a child that a step starts."""
CHILD_RESULT_BYTES_MAX = 700 * 1024
"""Results that a child's end brings to its parent."""
FORGOTTEN_CALLS_MAX = 100
"""Calls that one journal write drops from a journal."""
PLAN_TASKS_MAX = 10_000
PLAN_BYTES_MAX = 3 * 1024 * 1024
DEPENDENCIES_PER_TASK_MAX = 10_000
ITERATIONS_MAX = 10_000
NO_PROGRESS_LIMIT_DEFAULT = 3
PARALLEL_MAX = 256
ATTEMPTS_MAX = 1_000
DURATION_MS_MAX = 366 * 24 * 3600 * 1000
AGE_MS_MAX = 1_000_000_000 * 24 * 3600 * 1000
"""The greatest age that a store may be asked about; nothing is that old."""
PRIORITY_MAX = 100
VIOLATION_BYTES_MAX = 1024
"""A violation's field or its description, each."""
VIOLATIONS_MAX = 100
"""Field violations reported at once; the others are counted."""

PAGE_SIZE_DEFAULT = 100
PAGE_SIZE_MAX = 1_000
RECORD_PAGE_BYTES_MAX = 1024 * 1024
"""Bytes of prompt and response in one page of ReadTranscript."""
PAYLOAD_KEYS_MAX = 1_000
"""Payloads that one read may ask for."""
EVENTS_PER_COMMIT_MAX = 512
EVENT_BYTES_PER_COMMIT_MAX = 1024 * 1024
INPUTS_PER_TRANSITION_MAX = 64
"""Occurrences of a run that one commit decides; keeps a commit within its event limits."""
COMMITS_PER_GROUP_MAX = 256
RECEIVE_BYTES_MAX = 4 * 1024 * 1024
"""A message from a client or a worker."""
SEND_BYTES_MAX = 4 * 1024 * 1024
"""A message to a client or a worker: most gRPC clients refuse larger ones."""
STORE_MESSAGE_BYTES_MAX = 64 * 1024 * 1024
"""A message between an executor and a Store service: larger than any commit."""
METADATA_BYTES_MAX = 16 * 1024
FORK_IDS_MAX = 15_000
"""Task ids in each list of a fork's kept, repeated and pending tasks; the others are counted."""
INLINE_RESULTS_BYTES_MAX = 1024 * 1024
"""Bytes of results inside one assignment; ReadResults returns further ones."""
RESULT_ENTRIES_BYTES_MAX = 512 * 1024
"""Entries of results in one assignment, without their bytes; ReadResults lists further ones."""
ENTRY_FAILURE_BYTES_MAX = 2 * 1024
"""The failure of another task, or of one entry of a journal, in a message; a longer one is cut."""
PREVIOUS_FAILURE_BYTES_MAX = 64 * 1024
"""The failure of the attempt before in an assignment; a longer one is cut."""
CREDITS_MAX = 1_000
REQUESTS_KEPT_MAX = 256
"""Request ids of commands that are loaded with a run or a thread, the newest ones; older ones are looked up."""

WAIT_MS_MAX = 5 * 60 * 1000
PROGRESS_INTERVAL_MS_MIN = 1_000
PROGRESS_INTERVAL_MS_MAX = 5 * 60 * 1000
CURSOR_CHARS_MAX = 1_024
FILTER_VALUES_MAX = 100
ITEMS_PER_MESSAGE_MAX = 1_000
EXECUTION_ID_CHARS_MAX = 256
QUESTION_ID_CHARS_MAX = 512
ANSWER_BYTES_MAX = 256 * 1024
"""A person's answer, which an event holds; a commit's events have a limit."""
ANSWERS_BY_TOKEN_EACH_MAX = 600
"""Calls of AnswerByToken a minute from one address, per replica."""
ANSWERS_BY_TOKEN_MAX = 6_000
"""Calls of AnswerByToken a minute from all addresses, per replica."""
LOG_TEXT_BYTES_MAX = 16 * 1024
"""A longer line of a log is cut, with a note."""
LOG_BYTES_PER_EXECUTION_MAX = 4 * 1024 * 1024
"""Later entries are left out; one entry of kind CUT notes that."""
INLINE_MESSAGES_BYTES_MAX = 1024 * 1024
"""The part of a conversation inside one assignment; ListMessages returns the rest."""
SESSION_ID_CHARS_MAX = 256
IDEMPOTENCY_KEY_CHARS_MAX = 256
TASKS_PER_KEY_MAX = 100
"""Tasks of one plan that share an idempotency key."""
DEDUPLICATED_PER_COMMIT_MAX = 32
"""Tasks that reuse a known result in one commit, and keys searched before it; others follow."""
TOKEN_CHARS_MAX = 128
FEATURES_MAX = 100
"""Names of features in a worker's Hello."""
QUEUES_PER_WORKER_MAX = 100
RETRY_KINDS_MAX = 100
BACKOFF_MULTIPLIER_MAX = 1_000
AMOUNT_MAX = 10**15
"""Tokens, millionths of a currency unit, tasks; sums stay far below 64 bits."""
SCHEMA_BYTES_MAX = 64 * 1024
CHOICES_MAX = 100
STORE_TEXT_BYTES_MAX = 16 * 1024
STORE_ITEMS_MAX = 10_000
STORE_LIMIT_MAX = 1_000_000

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$"
"""The pattern of names, which allows no braces, percent signs, white space or control characters."""
TASK_ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$"
