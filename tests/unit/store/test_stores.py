"""Opening by URL: the scheme picks the driver, and no message tells a password."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

from stepwell.core.records.errors import StoreRefused
from stepwell.store import opener
from stepwell.store.opener import mask_url, open_store
from stepwell_testkit.runtime import ManualRuntime


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """Forget after each test which drivers were installed."""
    opener._drivers.clear()
    yield
    opener._drivers.clear()


class Installed:
    """Packages with drivers, written below a folder that is searched before all others."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.monkeypatch = monkeypatch
        monkeypatch.syspath_prepend(folder)

    def add(self, distribution: str, points: str, **modules: str) -> None:
        info = self.folder / f"{distribution.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n"
        )
        (info / "entry_points.txt").write_text(f"[{opener.DRIVERS}]\n{points}\n")
        for name, text in modules.items():
            # Set and taken away again, so that the end of the test takes away what was imported.
            self.monkeypatch.setitem(sys.modules, name, ModuleType(name))
            del sys.modules[name]
            (self.folder / f"{name}.py").write_text(textwrap.dedent(text))


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installed:
    return Installed(tmp_path, monkeypatch)


async def refusal_of(url: str) -> str:
    with pytest.raises(StoreRefused) as refused:
        await open_store(url, runtime=ManualRuntime())
    return str(refused.value)


# --- the URL ---


@pytest.mark.parametrize(
    ("url", "words"),
    [
        *((url, "no driver opens {!r}; known: ") for url in ("oracle://x", "Memory://", "o!://")),
        *(
            (url, "{!r} is no store URL")
            for url in ("memory", "", "://", "/tmp/x.db", "memory:x", "://memory")
        ),
    ],
)
async def test_url_that_no_driver_opens_is_refused_and_the_known_ones_named(
    url: str, words: str
) -> None:
    said = await refusal_of(url)
    assert said.startswith(words.format(url))
    assert "known: " in said
    assert "memory://, " in said


async def test_refusal_shows_no_password() -> None:
    said = await refusal_of("oracle://me:hunter2@host/db?token=hunter3")
    assert "hunter" not in said
    assert "me:***@host" in said


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("memory://", "memory://"),
        ("sqlite:///a/b@c.db", "sqlite:///a/b@c.db"),
        ("postgresql://u:p@h/d", "postgresql://u:***@h/d"),
        ("postgresql://u@h/d", "postgresql://u@h/d"),
        ("postgresql://u:p@ss/w?rd@h/d?sslmode=require", "postgresql://u:***@h/d?sslmode=require"),
        ("redis://:p@h", "redis://:***@h"),
        ("grpc://h:1?token=t&a=b&Api_Key=k", "grpc://h:1?token=***&a=b&Api_Key=***"),
        ("grpc://h:1?token=a@b", "grpc://h:***@b"),
        ("grpc://h?token=a@b", "grpc://h?token=***"),
        ("no url", "no url"),
    ],
)
def test_passwords_and_secret_parameters_are_masked(url: str, masked: str) -> None:
    assert mask_url(url) == masked


# --- what is missing or broken ---


WHILE_OPENING = """
    async def open_store(url, *, runtime):
        import nowhere
"""


@pytest.mark.parametrize(
    ("point", "source", "words"),
    [
        (
            ":open_store [fast]",
            "import nowhere",
            "the driver for some:// (of some-stores) needs the package 'nowhere', which is not",
        ),
        (":open_store [fast]", WHILE_OPENING, "try: pip install 'some-stores[fast]'"),
        (
            ":open_store",
            "import nowhere",
            "'nowhere', which is not installed; install it, or some-stores again",
        ),
        (
            ":open_store",
            "raise ValueError('too old')",
            "(of some-stores) can't be loaded from 'some_driver:open_store': ValueError: too old",
        ),
        (":open_store", "", "AttributeError"),
        (":open_store", "open_store = 'text'", "is not callable, but a str"),
        (":open_store", "def open_store(url, *, runtime): return 1", "is no async function"),
        (":open_store", "from stepwell.store.opener import nothing_of_the_kind", "ImportError"),
    ],
    ids=["extra", "while opening", "no extra", "raises", "nothing", "text", "sync", "import"],
)
async def test_driver_that_cannot_be_used_is_refused_by_name_and_harms_no_other(
    installed: Installed, point: str, source: str, words: str
) -> None:
    installed.add("some-stores", f"some = some_driver{point}", some_driver=source)
    said = await refusal_of("some://me:hunter2@host")
    assert words in said
    assert "hunter" not in said
    await (await open_store("memory://", runtime=ManualRuntime())).close()


def test_every_extra_that_a_driver_of_ours_names_is_one_of_the_distribution() -> None:
    offered = set(metadata.metadata("stepwell").get_all("Provides-Extra") or ())
    for point in metadata.entry_points(group=opener.DRIVERS):
        assert set(point.extras) <= offered, point


async def test_two_drivers_of_one_scheme_are_refused_by_name(installed: Installed) -> None:
    installed.add("one", "twin = one:open_store")
    installed.add("two", "twin = two:open_store")
    said = await refusal_of("twin://")
    assert "one" in said
    assert "two" in said
    assert said.endswith("uninstall all but one of them")


# --- finding ---


async def test_installed_drivers_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []

    def counted(*, group: str) -> metadata.EntryPoints:
        looks.append(group)
        return metadata.entry_points(group=group)

    monkeypatch.setattr(opener, "entry_points", counted)
    for _ in range(20):
        await (await open_store("memory://", runtime=ManualRuntime())).close()
    assert looks == [opener.DRIVERS]


async def test_driver_installed_later_is_loaded(installed: Installed) -> None:
    assert "no driver opens" in await refusal_of("late://")
    installed.add("late", "late = late_driver:open_store", late_driver="open_store = 1")
    assert "is not callable" in await refusal_of("late://")
