"""Dockerfile and compose file name what is there, and their requirements are those that were tested.

No image is built here: that needs a container engine. What the build does is done without one.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement

from stepwell import config
from stepwell.cli import app
from tests.docs.pages import README_AGENT, TOP

DEPLOY = TOP / "deploy"
COMPOSE = DEPLOY / "compose.yaml"


class Instruction(NamedTuple):
    """A line of the Dockerfile, continued ones put together."""

    name: str
    text: str
    stage: int


def _instructions() -> Iterator[Instruction]:
    text = (TOP / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    stage = -1
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        name, _, rest = line.partition(" ")
        stage += name == "FROM"
        yield Instruction(name, " ".join(rest.split()), stage)


DOCKERFILE = tuple(_instructions())


def _of(name: str, stage: int | None = None) -> list[str]:
    return [one.text for one in DOCKERFILE if one.name == name and stage in (None, one.stage)]


def _environment() -> dict[str, str]:
    """Return what the image's last stage sets."""
    pairs = [word.partition("=") for text in _of("ENV", 1) for word in shlex.split(text)]
    return {name: value for name, _, value in pairs}


# --- the Dockerfile --------------------------------------------------------------------------------


def test_both_stages_have_one_base_of_a_pinned_tag() -> None:
    bases = [text.partition(" AS ")[0] for text in _of("FROM")]
    assert len(bases) == 2
    assert bases[0] == bases[1]
    assert re.fullmatch(r"python:3\.\d+-slim-\w+", bases[0])


def test_copied_files_exist_and_are_in_the_build_context() -> None:
    allowed = [
        line[1:]
        for line in (TOP / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line.startswith("!")
    ]
    sources = [text.split()[:-1] for text in _of("COPY") if not text.startswith("--from")]
    copied = {source for group in sources for source in group}
    assert copied
    for source in copied:
        assert (TOP / source).exists(), source
        assert source in allowed, f"{source} is not in .dockerignore"
    assert copied == set(allowed), ".dockerignore lets in what nobody copies"


def test_the_last_stage_installs_nothing_and_runs_as_a_user_by_number() -> None:
    assert not [text for text in _of("RUN", 1) if "pip" in text or "apt" in text]
    (user,) = _of("USER", 1)
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    (folders,) = _of("RUN", 1)
    made = json.loads(folders)
    uid, gid = user.split(":")
    assert made[made.index("-o") + 1] == uid
    assert made[made.index("-g") + 1] == gid
    assert made[made.index("-m") + 1] == "0700"
    assert made[-2:] == ["/data", "/run/stepwell"]


def test_it_is_started_stopped_and_asked_by_commands_that_there_are() -> None:
    (entry,) = _of("ENTRYPOINT")
    (command,) = _of("CMD")
    (check,) = _of("HEALTHCHECK")
    assert json.loads(entry) == ["stepwell"]
    assert set(json.loads(command)) <= set(app.COMMANDS)
    asked = json.loads(check.partition("CMD ")[2])
    assert asked[0] == "stepwell"
    assert asked[1] in app.COMMANDS
    assert _of("STOPSIGNAL") == ["SIGTERM"]
    assert [json.loads(text) for text in _of("VOLUME")] == [["/data"]]


def test_the_settings_of_the_image_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = _environment()
    for name, value in environment.items():
        if name.startswith("STEPWELL_"):
            monkeypatch.setenv(name, value)
    settings = config.load()
    assert settings.store.url.get_secret_value() == "sqlite:////data/stepwell.db"
    assert str(settings.grpc.socket) == "/run/stepwell/stepwell.sock"
    assert "port" not in settings.grpc.model_fields_set
    assert environment["STEPWELL_TARGET"] == f"unix:{settings.grpc.socket}"
    assert environment["STEPWELL_TOKEN_FILE"] == str(settings.auth.token_file)
    page = (TOP / "docs" / "operating.md").read_text(encoding="utf-8")
    for name in environment:
        assert not name.startswith("STEPWELL_") or f"`{name}`" in page


# --- compose -----------------------------------------------------------------------------------------


def _compose(path: Path) -> dict[str, Any]:
    yaml: Any = pytest.importorskip("yaml", reason="PyYAML is not installed")
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.fixture
def compose() -> dict[str, Any]:
    return _compose(COMPOSE)


def test_compose_builds_from_this_tree_and_both_containers_are_that_image(
    compose: dict[str, Any],
) -> None:
    service, agent = compose["services"]["stepwell"], compose["services"]["agent"]
    assert (DEPLOY / service["build"]["context"] / "Dockerfile").resolve() == TOP / "Dockerfile"
    assert service["image"] == agent["image"] == f"stepwell:{metadata.version('stepwell')}"
    assert agent["depends_on"]["stepwell"]["condition"] == "service_healthy"


def test_compose_shares_socket_and_token_between_containers_of_one_user(
    compose: dict[str, Any],
) -> None:
    service, agent = compose["services"]["stepwell"], compose["services"]["agent"]
    assert agent["user"] == _of("USER", 1)[0]
    assert "user" not in service
    assert "socket:/run/stepwell" in service["volumes"]
    assert "socket:/run/stepwell" in agent["volumes"]
    assert "data:/data" in service["volumes"]
    assert not [one for one in agent["volumes"] if one.startswith("data:")]
    named = {one.partition(":")[0] for s in (service, agent) for one in s["volumes"]}
    assert {one for one in named if not one.startswith(".")} == set(compose["volumes"])
    for name, value in agent["environment"].items():
        assert _environment()[name] == value
    assert "ports" not in service


def test_compose_runs_an_agent_that_is_there(compose: dict[str, Any]) -> None:
    agent = compose["services"]["agent"]
    command, where = agent["command"]
    module, _, name = where.partition(":")
    assert command in app.COMMANDS
    mounted = [one.split(":") for one in agent["volumes"] if one.startswith(".")]
    assert [(DEPLOY / one[0]).is_file() for one in mounted] == [True]
    assert mounted[0][1] == f"{agent['working_dir']}/{module}.py"
    assert re.search(rf"^{name} = Agent\(", (DEPLOY / mounted[0][0]).read_text(), re.MULTILINE)


def test_compose_with_tls_uses_the_certificates_that_it_makes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    services = _compose(DEPLOY / "compose.tls.yaml")["services"]
    command, folder, *named = services["certs"]["command"]
    assert command in app.COMMANDS
    assert named == ["--name", "stepwell"]
    for name in ("stepwell", "agent"):
        depends = services[name]["depends_on"]
        assert depends["certs"]["condition"] == "service_completed_successfully"
        assert services[name]["volumes"][0] == services["certs"]["volumes"][0]
    for name, value in (_environment() | services["stepwell"]["environment"]).items():
        if name.startswith("STEPWELL_"):
            monkeypatch.setenv(name, value)
    grpc = config.load().grpc
    pair = (f"{folder}/server.pem", f"{folder}/server-key.pem")
    assert (str(grpc.tls_cert), str(grpc.tls_key), grpc.host) == (*pair, "0.0.0.0")
    assert (str(grpc.tls_client_ca), grpc.insecure_allow_remote) == (f"{folder}/ca.pem", False)
    assert services["agent"]["environment"] == {
        "STEPWELL_TARGET": f"grpcs://stepwell:{grpc.port}",
        "STEPWELL_TLS_CA": f"{folder}/ca.pem",
        "STEPWELL_TLS_CERT": f"{folder}/client.pem",
        "STEPWELL_TLS_KEY": f"{folder}/client-key.pem",
    }


def test_the_agent_is_the_one_of_the_readme_without_what_makes_it_slow() -> None:
    readme = _functions(README_AGENT)
    readme["count"] = [
        one for one in readme["count"] if "print(" not in one and "sleep(" not in one
    ]
    assert _functions((DEPLOY / "agent.py").read_text(encoding="utf-8")) == readme


def _functions(source: str) -> dict[str, list[str]]:
    """Return the decorators, the signature and the statements of each function, by its name."""
    return {
        node.name: [ast.unparse(part) for part in (*node.decorator_list, node.args, *node.body)]
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef)
    }


# --- what is installed -------------------------------------------------------------------------------


def _pins(path: Path) -> dict[str, str]:
    """Return each package's lines in a requirements file, by its name."""
    found: dict[str, str] = {}
    name = ""
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.startswith("#") or not line.strip():
            continue
        if not line.startswith(" "):
            name = _canonical(re.split(r"[=;\[ ]", line)[0])
        found[name] = found.get(name, "") + line
    return found


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


# The image's, whichever Python runs the tests.
_IMAGE = {
    "python_version": "3.11",
    "python_full_version": "3.11.2",
    "sys_platform": "linux",
    "platform_system": "Linux",
}


_EXTRAS = ("", "certs", "postgres", "redis", "uvloop")
"""Every store that the documents name can be opened in the image; it makes certificates, and runs on uvloop."""


def _holds(marker: Marker) -> bool:
    return any(marker.evaluate({**_IMAGE, "extra": extra}) for extra in _EXTRAS)


def _needed(root: str) -> set[str]:
    """Return what a package needs in the image, as the installed packages say."""
    found: set[str] = set()
    waiting = [root]
    while waiting:
        with suppress(metadata.PackageNotFoundError):
            for text in metadata.requires(waiting.pop()) or ():
                one = Requirement(text)
                name = _canonical(one.name)
                if name not in found and (one.marker is None or _holds(one.marker)):
                    found.add(name)
                    waiting.append(name)
    return found - {"stepwell-client"}


@pytest.mark.parametrize(
    ("name", "root", "own"),
    [
        ("requirements.txt", "stepwell", set()),
        ("build-requirements.txt", "hatchling", {"hatchling"}),
    ],
)
def test_the_image_gets_what_was_tested_and_no_more(name: str, root: str, own: set[str]) -> None:
    tested, deployed = _pins(TOP / "requirements/dev.txt"), _pins(DEPLOY / name)
    assert set(deployed) == _needed(root) | own, f"deploy/{name}: other packages are needed now"
    stale = [one for one in deployed if deployed[one] != tested[one]]
    assert not stale, f"deploy/{name}: copy their lines from requirements/dev.txt"


def test_the_image_installs_nothing_without_a_hash() -> None:
    for line in (TOP / "Dockerfile").read_text().replace("\\\n", "").splitlines():
        for command in re.findall(r"pip [^&]*\b(?:install|wheel)\b[^&]*", line):
            assert (
                "--require-hashes" in command
                or "--no-index" in command
                or "--no-build-isolation" in command
            )
