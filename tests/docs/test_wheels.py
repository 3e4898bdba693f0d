"""Contents of the four wheels: no test code in the server's, nothing else in the test kit's.

They are built here, with the packages that are installed; nothing is fetched.
"""

from __future__ import annotations

import ast
import re
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement

from tests.docs.pages import TOP
from tests.docs.shell import Shell, stop

VERSION = "0.1.0"
FRAMEWORKS = {"agents": "openai-agents", "pydantic_ai": "pydantic-ai-slim"}
"""Distributions that are not installed here and are named otherwise than what is imported."""
TEST_ONLY = {"hypothesis", "pytest", "pytest_asyncio", "stepwell_testkit", "tests"}


class Wheel(NamedTuple):
    """A built wheel, read."""

    path: Path
    files: tuple[str, ...]
    metadata: Message
    imports: dict[str, set[str]]
    """The top-level names that each module imports."""

    @property
    def packages(self) -> set[str]:
        """The top-level folders, its metadata aside."""
        return {name.split("/")[0] for name in self.files if ".dist-info/" not in name}

    @property
    def imported(self) -> set[str]:
        """All that its modules import of others."""
        return {name for names in self.imports.values() for name in names} - self.packages

    @property
    def required(self) -> dict[str, Requirement]:
        """Return the requirements by name; extras included."""
        lines = [Requirement(line) for line in self.metadata.get_all("Requires-Dist") or ()]
        return {one.name: one for one in lines}


def built(project: Path, folder: Path) -> Wheel:
    """Build a distribution's wheel and read it."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=project, check=True, capture_output=True, timeout=60)
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        texts = {name: wheel.read(name).decode() for name in wheel.namelist() if _is_text(name)}
        (metadata,) = (text for name, text in texts.items() if name.endswith("/METADATA"))
        imports = {name: set(_imports(t)) for name, t in texts.items() if name.endswith(".py")}
        return Wheel(path, tuple(wheel.namelist()), Parser().parsestr(metadata), imports)


def _is_text(name: str) -> bool:
    return name.endswith((".py", "/METADATA"))


def _imports(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.split(".")[0]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    return built(TOP, tmp_path_factory.mktemp("server"))


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    return built(TOP / "clients" / "python", tmp_path_factory.mktemp("client"))


@pytest.fixture(scope="module")
def frameworks(tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    return built(TOP / "clients" / "frameworks", tmp_path_factory.mktemp("frameworks"))


@pytest.fixture(scope="module")
def testkit(tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    return built(TOP / "testkit", tmp_path_factory.mktemp("testkit"))


def test_server_wheel_holds_service_and_drivers_and_no_test_code(server: Wheel) -> None:
    assert server.packages == {"stepwell", "stepwell_drivers"}
    assert not server.imported & TEST_ONLY
    parts = {part.removesuffix(".py") for name in server.files for part in name.split("/")}
    assert not parts & {"tests", "testing", "conformance", "simulator", "conftest"}
    assert not [part for part in parts if part.startswith("test_")]


def test_server_wheel_holds_the_page_of_the_console_with_its_licences(server: Wheel) -> None:
    held = {name for name in server.files if name.startswith("stepwell/console/assets/")}
    folder = TOP / "service/stepwell/console/assets"
    assert held == {f"stepwell/console/assets/{one.name}" for one in folder.iterdir()}
    assert "stepwell/console/assets/LICENSES.txt" in held


def test_client_wheel_holds_the_protocol_with_packages_for_other_languages(client: Wheel) -> None:
    held = {name for name in client.files if name.endswith(".proto")}
    assert held == {
        f"stepwell_client/{one.relative_to(TOP)}" for one in TOP.glob("proto/**/*.proto")
    }
    with zipfile.ZipFile(client.path) as wheel:
        for name in held:
            text = wheel.read(name).decode()
            assert "\noption go_package = " in text
            assert "\noption java_package = " in text


def test_client_wheel_holds_the_client_and_imports_no_server(client: Wheel) -> None:
    assert client.packages == {"stepwell_client"}
    assert not client.imported & {*TEST_ONLY, "stepwell", "stepwell_drivers"}


def test_frameworks_wheel_holds_the_adapters_with_an_extra_each(frameworks: Wheel) -> None:
    assert frameworks.packages == {"stepwell_frameworks"}
    assert "stepwell_frameworks/py.typed" in frameworks.files
    folders = {name.split("/")[1] for name in frameworks.files if name.count("/") == 2}
    extras = frameworks.metadata.get_all("Provides-Extra", [])
    assert {name.replace("-", "_") for name in extras} == {
        name for name in folders if f"stepwell_frameworks/{name}/__init__.py" in frameworks.files
    }
    assert not frameworks.imported & {*TEST_ONLY, "stepwell", "stepwell_drivers"}


def test_testkit_wheel_holds_the_kit_and_needs_no_tests(
    testkit: Wheel,
) -> None:
    assert testkit.packages == {"stepwell_testkit"}
    assert not testkit.imported & {"stepwell_drivers", "tests"}
    assert {"stepwell_testkit/py.typed", "stepwell_testkit/conformance/__init__.py"} <= {
        *testkit.files
    }


def test_each_wheel_brings_its_licence_authors_and_page(
    server: Wheel, client: Wheel, frameworks: Wheel, testkit: Wheel
) -> None:
    for wheel in (server, client, frameworks, testkit):
        name = wheel.metadata["Name"].replace("-", "_")
        assert f"{name}-{VERSION}.dist-info/licenses/LICENSE" in wheel.files
        assert wheel.metadata["Author"] == "The Stepwell authors"
        assert "Programming Language :: Python :: 3.11" in wheel.metadata.get_all("Classifier", [])
    for wheel in (client, frameworks, testkit):
        # A relative link leads nowhere from where a wheel's page is shown.
        assert not re.findall(r"\]\((?!https:|#)[^)]*\)", str(wheel.metadata.get_payload()))
    assert testkit.metadata["Description-Content-Type"] == "text/markdown"
    assert "stepwell_testkit.environment" in str(testkit.metadata.get_payload())


def test_each_wheel_requires_what_it_imports(
    server: Wheel, client: Wheel, frameworks: Wheel, testkit: Wheel
) -> None:
    owners = packages_distributions()
    for wheel in (server, client, frameworks, testkit):
        foreign = wheel.imported - sys.stdlib_module_names - {"__future__"}
        for name in foreign:
            # A namespace has several: `google` is protobuf's and googleapis'.
            named = owners.get(name, [FRAMEWORKS.get(name, name)])
            brought = {owner.lower().replace("_", "-") for owner in named}
            assert brought & wheel.required.keys(), f"{wheel.metadata['Name']}: {name}"


def test_distributions_require_each_other_at_their_own_version(
    server: Wheel, client: Wheel, frameworks: Wheel, testkit: Wheel
) -> None:
    for wheel in (server, client, frameworks, testkit):
        assert wheel.metadata["Version"] == VERSION
    assert str(server.required["stepwell-client"]) == f"stepwell-client=={VERSION}"
    assert str(testkit.required["stepwell-client"]) == f"stepwell-client=={VERSION}"
    assert str(frameworks.required["stepwell-client"]) == f"stepwell-client=={VERSION}"
    assert str(testkit.required["stepwell"]) == f"stepwell=={VERSION}"
    assert not {"stepwell", "stepwell-testkit"} & client.required.keys()
    assert "stepwell-testkit" not in server.required


def test_wheels_serve_by_themselves(server: Wheel, client: Wheel, tmp_path: Path) -> None:
    site = tmp_path / "site"
    for wheel in (server, client):
        zipfile.ZipFile(wheel.path).extractall(site)
    with Shell(tmp_path) as shell:
        # Before this tree, which the environment has as editable.
        shell.environment["PYTHONPATH"] = str(site)
        shell.environment["STEPWELL_STORE__URL"] = "sqlite:///wheel.db"
        where = shell.run(f"{sys.executable} -c 'import stepwell; print(stepwell.__file__)'")
        assert where.stdout.startswith(str(site))
        process = shell.serve("stepwell serve")
        assert shell.run("stepwell health").returncode == 0
        assert stop(process, signal.SIGTERM) == 0


def test_image_is_built_without_the_testkit() -> None:
    for name in ("Dockerfile", ".dockerignore", "deploy/requirements.txt"):
        assert "testkit" not in (TOP / name).read_text(encoding="utf-8"), name
