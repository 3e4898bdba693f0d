"""The settings of a server: flags over environment over `stepwell.toml`, unknown keys refused.

    STEPWELL_GRPC__PORT=7000 stepwell serve        # the environment; `__` enters a group
    [grpc]                                         # stepwell.toml
    port = 7000

`load()` reads all three. Durations are in milliseconds and say so in their names. Secrets are never
part of a `repr`.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args, get_origin

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)

FILE_NAME = "stepwell.toml"
ENV_PREFIX = "STEPWELL_"
ENV_FILE = "STEPWELL_CONFIG"
"""Names a file other than `stepwell.toml` in the working directory."""

_NAME = r"^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$"
_Port = Annotated[int, Field(ge=0, le=65_535)]
_Ms = Annotated[int, Field(ge=1, le=24 * 3600 * 1000)]
_Amount = Annotated[int, Field(ge=0, le=10**15)]


class SettingsRefused(ValueError):
    """The server can't start with these settings; the message says what to do."""


def state_folder() -> Path:
    """Return the folder of this user's state: `$XDG_STATE_HOME` or `~/.local/state`, then `stepwell`."""
    # The XDG base directory specification ignores a relative path.
    named = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not named.is_absolute():
        # Not Path.home(), which raises where a user has no home: the path's error is then shown where it is used.
        named = Path("/", os.path.expanduser("~"), ".local", "state")  # noqa: PTH111 - see above
    return named / "stepwell"


def _token_file() -> Path:
    return state_folder() / "token"


def _default_store() -> SecretStr:
    return SecretStr(f"sqlite:///{state_folder() / 'stepwell.db'}")


class Group(BaseModel):
    """The base of the groups: an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class StoreSettings(Group):
    """The store of all state."""

    url: SecretStr = Field(default_factory=_default_store)
    """The URL of the store, whose scheme selects the driver. It may hold a password, so it is never shown."""


class GrpcSettings(Group):
    """Listening addresses, and limits and time-outs of connections."""

    host: str = "127.0.0.1"
    """The address to listen on; addresses other than loopback's need TLS."""
    port: _Port = 7878
    """The port; 0: a free one. With `socket` and no port, the server listens only on the socket."""
    socket: Path | None = None
    """A Unix socket to listen on, in a folder that only the server's user can enter."""
    tls_cert: Path | None = None
    """The certificate of the port, with intermediate certificates, in PEM. Changed files are used for new connections."""
    tls_key: Path | None = None
    """The certificate's key, in PEM and without a passphrase."""
    tls_client_ca: Path | None = None
    """Accept only clients with a certificate of this authority. They still need their token."""
    insecure_allow_remote: bool = False
    """Listen on addresses that other machines can reach, although nothing is encrypted."""
    calls_max: Annotated[int, Field(ge=1, le=50_000)] = 2_000
    """Short calls that are served at once; Heartbeat, ReportOutcomes and AppendOutput are not counted."""
    streams_max: Annotated[int, Field(ge=1, le=50_000)] = 4_000
    """Streams that are open at once: watches, logs, workers, and calls of WaitRun."""
    keepalive_ms: _Ms = 10_000
    """The interval at which a quiet connection is probed."""
    keepalive_timeout_ms: _Ms = 5_000
    """The time after which a connection without an answer to its probe is closed."""


class ConsoleSettings(Group):
    """The web console of a server, on a separate port."""

    enabled: bool = False
    """Serve the web console."""
    host: str = "127.0.0.1"
    """The address that the console listens on; addresses other than loopback's need TLS."""
    port: _Port = 7880
    """The port; 0: a free one. If the default port is in use, the next free one is used."""
    hosts: tuple[str, ...] = ()
    """Further host names by which browsers may call it, besides those of loopback; others are refused."""
    tls_cert: Path | None = None
    """The certificate of the port, with intermediate certificates, in PEM. Changed files are used for new connections."""
    tls_key: Path | None = None
    """The certificate's key, in PEM and without a passphrase."""
    insecure_allow_remote: bool = False
    """Listen on addresses that other machines can reach, although nothing is encrypted."""
    key_file: Path | None = None
    """The file of the secret that signs sessions, created at the first start. None: `console.key`
    beside `auth.token_file`.
    """


class StaticToken(Group):
    """A credential: its scopes and its tenant."""

    name: str = Field(default="", pattern=_NAME + "|^$")
    """The bearer's name, as runs show it; empty: derived from the token's hash."""
    token_sha256: SecretStr | None = None
    """The hash of the token, in hex."""
    token_file: Path | None = None
    """A file with the token, owned by the server's user and not accessible to others."""
    tenant: str = Field(pattern=_NAME)
    """The tenant whose runs it may access."""
    scopes: frozenset[str] = Field(min_length=1)
    """The kinds of calls that it may make."""
    expires: AwareDatetime | None = None
    """The moment of its expiry; none: it never expires."""

    @model_validator(mode="after")
    def _one_source(self) -> StaticToken:
        if (self.token_sha256 is None) == (self.token_file is None):
            raise ValueError("give either token_sha256 or token_file")
        return self

    @property
    def expires_us(self) -> int:
        """Return the moment in microseconds since 1970; 0: never."""
        moment: datetime | None = self.expires
        return int(moment.timestamp() * 1_000_000) if moment is not None else 0


class AuthSettings(Group):
    """Credentials that the server accepts."""

    token_file: Path = Field(default_factory=_token_file)
    """The file of the minted token, which has all scopes and the tenant `default`."""
    mint: bool = True
    """Create that token at the first start, and accept it."""
    tokens: tuple[StaticToken, ...] = ()
    """Further tokens, each with its own tenant and scopes."""


class ExecutorSettings(Group):
    """Leases, polls and caches of the engine."""

    lease_ms: _Ms = 30_000
    """The time after its last heartbeat at which a step's worker counts as lost."""
    poll_ms: _Ms = 1_000
    """The longest time between two reads of the store for ready steps and due items; hints shorten it."""
    hold_ms: _Ms = 2_000
    """The time for which a step that one replica has claimed is not offered to others."""
    presence_ms: _Ms = 5_000
    """The interval at which a replica reports its connected workers."""
    stickiness_ms: Annotated[int, Field(ge=0)] = 500
    """The time for which a run's next steps may precede waiting steps of other runs in the queue; 0: never."""
    hot_runs_max: Annotated[int, Field(ge=1)] = 10_000
    """The number of runs that a replica keeps in memory; others are read from the store when they continue."""
    payload_cache_bytes_max: Annotated[int, Field(ge=0)] = 64 * 1024 * 1024
    """The bytes of inputs and results that a replica keeps in memory; 0: none."""


class QueueSettings(Group):
    """Limits of a queue, for each tenant separately."""

    max_parallel: Annotated[int, Field(ge=1)]
    """The most steps of it that may be leased at once, over all runs and replicas."""


class BudgetSettings(Group):
    """Default limits of a run that is started without them. 0: no limit."""

    input_tokens: _Amount = 0
    """Tokens that models read; 0: no limit."""
    output_tokens: _Amount = 0
    """Tokens that models wrote; 0: no limit."""
    cost_micros: _Amount = 0
    """Millionths of the currency unit that you bill in; 0: no limit."""
    tasks: _Amount = 0
    """Tasks that are begun; 0: no limit."""
    wall_ms: Annotated[int, Field(ge=0, le=366 * 24 * 3600 * 1000)] = 0
    """The time since its first lease; 0: no limit."""
    iterations: _Amount = 0
    """Iterations that are begun; 0: no limit."""


class BudgetsSettings(Group):
    """Default budgets; each part is the tenant's own, or else the default for all."""

    default: BudgetSettings = BudgetSettings()
    """The limits of runs of all tenants without their own."""
    tenants: dict[Annotated[str, Field(pattern=_NAME)], BudgetSettings] = {}
    """The limits of a tenant's runs, by the tenant's name."""


class RetentionSettings(Group):
    """Retention of ended runs and of logs; 0: without limit."""

    succeeded_ms: Annotated[int, Field(ge=0)] = 0
    """The time that a run is kept after it succeeded; 0: without limit. It is then removed
    completely, except results that its forks keep.
    """
    failed_ms: Annotated[int, Field(ge=0)] = 0
    """The time that a run is kept after it failed; 0: without limit."""
    cancelled_ms: Annotated[int, Field(ge=0)] = 0
    """The time that a run is kept after it was cancelled; 0: without limit."""
    logs_ms: Annotated[int, Field(ge=0)] = 7 * 24 * 3600 * 1000
    """The time that log entries of steps are kept after they were written; 0: without limit."""
    sweep_ms: _Ms = 60_000
    """The interval at which a replica looks for expired runs and logs."""


class WatchSettings(Group):
    """Progress messages, stalls and message sizes of watch streams."""

    progress_ms: _Ms = 15_000
    """The interval at which an idle watch sends progress, unless the request sets one, and an idle worker's stream
    an empty message. Set it below the time after which a proxy in front cuts idle streams.
    """
    stall_ms: _Ms = 60_000
    """A write that is blocked for longer ends its stream."""
    message_bytes_max: Annotated[int, Field(ge=1024, le=2 * 1024 * 1024)] = 1024 * 1024
    """The size above which a message is split, between commits and between items."""


class MetricsSettings(Group):
    """The page for Prometheus, on loopback only."""

    port: _Port | None = None
    """The port; 0: a free one. None: no page."""


class LogSettings(Group):
    """Level and format of the log on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The lowest level that is written."""
    format: Literal["json", "console"] = "console"
    """Lines of JSON for programs, or of text for people."""


class Settings(Group):
    """All settings. Made by `load`, or by hand in tests and in programs that embed a server."""

    store: StoreSettings = StoreSettings()
    grpc: GrpcSettings = GrpcSettings()
    console: ConsoleSettings = ConsoleSettings()
    auth: AuthSettings = Field(default_factory=AuthSettings)
    executor: ExecutorSettings = ExecutorSettings()
    queues: dict[str, QueueSettings] = {}
    """The queues that have limits, by name."""
    retention: RetentionSettings = RetentionSettings()
    watch: WatchSettings = WatchSettings()
    budgets: BudgetsSettings = BudgetsSettings()
    metrics: MetricsSettings = MetricsSettings()
    log: LogSettings = LogSettings()
    drain_ms: _Ms = 10_000
    """The time that a shutdown may take before remaining work is cut off."""
    notice_ms: Annotated[int, Field(ge=0, le=3600 * 1000)] = 0
    """The time for which a shutdown answers NOT_SERVING and still serves, so that load balancers notice."""
    health_ms: _Ms = 5_000
    """The interval at which the server checks that the store accepts commits."""


def load(flags: Mapping[str, Any] | None = None) -> Settings:
    """Return the settings from flags (nested by group), the environment and the file.

    Raises:
        SettingsRefused: keys are unknown or values invalid; all of them are named.
    """
    values = _over(flags or {}, _over(read_environment(), read_file()))
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise SettingsRefused(_explain(error)) from None


def read_environment() -> dict[str, Any]:
    """Return the settings of the environment, where a whole group, a table or a list is JSON.

    Raises:
        SettingsRefused: a variable is no setting, or can't be parsed.
    """
    known = {f"{ENV_PREFIX}{name.upper()}" for name in Settings.model_fields}
    others = (*_OTHERS, *_kubernetes())
    values: dict[str, Any] = {}
    # A group's own variable is read before those of its parts, which override it.
    for variable, text in sorted(os.environ.items(), key=lambda item: item[0].lower()):
        name = variable.upper()
        if not name.startswith(ENV_PREFIX) or name.startswith(others):
            continue
        if name.partition("__")[0] not in known:
            raise SettingsRefused(
                f"{name} is no setting; settings are {', '.join(sorted(known))},"
                " and `__` enters a group, as in STEPWELL_GRPC__PORT"
            )
        path = name.removeprefix(ENV_PREFIX).lower().split("__")
        value: Any = text if _is_plain(path) else _parsed(name, text)
        for key in reversed(path):
            value = {key: value}
        values = _over(value, values)
    return values


def _kubernetes() -> list[str]:
    """Return the prefixes of variables that Kubernetes sets for Services named `stepwell…`.

    `STEPWELL_PORT=tcp://10.0.0.7:7878` shows that there is such a Service; no setting has such a value.
    """
    services = [
        name.removesuffix("_PORT")
        for name, value in os.environ.items()
        if re.fullmatch(r"STEPWELL(.*[^_])?_PORT", name) and _PORT_VALUE.match(value)
    ]
    return [service + end for service in services for end in ("_PORT", "_SERVICE_")]


def _is_plain(path: Sequence[str]) -> bool:
    """Return whether the setting of that name is a single value, which the environment has unquoted."""
    kind: Any = Settings
    for key in path:
        if get_origin(kind) is dict:
            kind = get_args(kind)[1]
        elif isinstance(kind, type) and issubclass(kind, BaseModel) and key in kind.model_fields:
            kind = kind.model_fields[key].annotation
        else:
            # There is no such setting, which the check of all settings reports.
            return True
    is_group = isinstance(kind, type) and issubclass(kind, BaseModel)
    return not is_group and get_origin(kind) not in (dict, tuple)


def _parsed(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise SettingsRefused(
            f"{name} holds several values, and is to be written as JSON"
        ) from None


def _over(upper: Mapping[str, Any], lower: Mapping[str, Any]) -> dict[str, Any]:
    """Return both merged, group by group; the upper one wins."""
    merged = dict(lower)
    for key, value in upper.items():
        below = merged.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            merged[key] = _over(cast("Mapping[str, Any]", value), cast("Mapping[str, Any]", below))
        else:
            merged[key] = value
    return merged


def read_file() -> dict[str, Any]:
    """Return the settings of the file that `STEPWELL_CONFIG` names, or of `./stepwell.toml`.

    Raises:
        SettingsRefused: the file isn't TOML, or the named file is missing.
    """
    named = os.environ.get(ENV_FILE, "")
    path = Path(named or FILE_NAME)
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        if named:
            raise SettingsRefused(f"{ENV_FILE} names {path}, which is not there") from None
        return {}
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise SettingsRefused(f"{path} can't be read: {error}") from None


_PORT_VALUE = re.compile("(tcp|udp|sctp)://")
_OTHERS = (
    *(ENV_FILE, "STEPWELL_TARGET", "STEPWELL_TOKEN", "STEPWELL_STORE_TOKEN", "STEPWELL_TEST_"),
    *("STEPWELL_TLS_", "STEPWELL_INSECURE_ALLOW_REMOTE", "STEPWELL_KEEPER", "STEPWELL_NO_OPEN"),
)
"""Other variables, or prefixes of them, that may be in the same environment: those of clients and of tests."""


def plain_fault(text: str) -> str:
    """Return a plain description of a value's fault, for the commonest faults."""
    for pattern, words in _FAULTS:
        if pattern.fullmatch(text):
            return pattern.sub(words, text)
    return text


_FAULTS = (
    (re.compile(r"Input should be greater than or equal to (.+)"), r"it must be at least \1"),
    (re.compile(r"Input should be less than or equal to (.+)"), r"it must be at most \1"),
    (re.compile(r"Input should be a valid integer\b.*"), "it must be a whole number"),
    (re.compile(r"Input should be a valid number\b.*"), "it must be a number"),
    (re.compile(r"Input should be a valid boolean\b.*"), "it must be true or false"),
    (re.compile(r"Input should be (.+)"), r"it must be \1"),
)


def _explain(error: ValidationError) -> str:
    """Return which setting is wrong and why, without the value, which may be a secret."""
    lines: list[str] = []
    for fault in error.errors(include_input=False, include_url=False, include_context=False):
        path = ".".join(str(part) for part in fault["loc"]) or "settings"
        unknown = fault["type"] == "extra_forbidden"
        lines.append(
            f"{path}: there is no such setting"
            if unknown
            else f"{path}: {plain_fault(fault['msg'])}"
        )
    return "; ".join(lines)
