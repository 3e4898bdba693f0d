"""Settings from the environment: other programs' variables are left out, mistakes are refused."""

from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from stepwell.config import Settings, SettingsRefused, load
from stepwell_client import default_token_file
from stepwell_drivers.remote import access


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _kubernetes_service(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Set what Kubernetes sets in each pod for a Service of that name, with two ports."""
    prefix = name.upper().replace("-", "_")
    host = "10.96.0.7"
    variables = {
        f"{prefix}_SERVICE_HOST": host,
        f"{prefix}_SERVICE_PORT": "7878",
        f"{prefix}_SERVICE_PORT_GRPC": "7878",
        f"{prefix}_SERVICE_PORT_WEB_UI": "7880",
        f"{prefix}_PORT": f"tcp://{host}:7878",
    }
    for port in (7878, 7880):
        one = f"{prefix}_PORT_{port}_TCP"
        variables |= {one: f"tcp://{host}:{port}", f"{one}_PROTO": "tcp"}
        variables |= {f"{one}_PORT": str(port), f"{one}_ADDR": host}
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)


@pytest.mark.parametrize(
    "name",
    ["stepwell", "stepwell-store", "stepwell-console", "stepwell-grpc", "stepwell-drain-ms"],
)
def test_variables_of_a_Kubernetes_Service_are_no_settings(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    expected = load()
    _kubernetes_service(monkeypatch, name)
    assert load() == expected
    monkeypatch.setenv("STEPWELL_GRPC__PORT", "7000")
    assert load().grpc.port == 7000


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("STEPWELL_GRPC__PORTT", "1", r"grpc\.portt: there is no such setting"),
        ("STEPWELL_GRPCPORT", "1", "STEPWELL_GRPCPORT is no setting"),
        ("STEPWELL_GRPC_PORT", "7000", "STEPWELL_GRPC_PORT is no setting"),
        ("STEPWELL_GRPC__PORT", "tcp://10.96.0.8:1", "grpc.port: it must be a whole number"),
    ],
)
def test_a_mistake_is_refused_where_Kubernetes_has_a_Service(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, words: str
) -> None:
    _kubernetes_service(monkeypatch, "stepwell")
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsRefused, match=words):
        load()


def test_a_user_without_a_home_gets_paths_below_the_root(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def has_no_entry(number: int) -> pwd.struct_passwd:
        raise KeyError(number)

    for variable in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", has_no_entry)
    token = Path("/~/.local/state/stepwell/token")

    settings: Settings = load()
    assert settings.auth.token_file == token
    assert default_token_file() == access.default_token_file({}) == token
