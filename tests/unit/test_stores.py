"""Opening by URL: the scheme picks the driver, and no message tells a password."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from importlib import metadata
from importlib.metadata import EntryPoint
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


# --- what is missing ---


async def test_a_package_that_an_extra_brings_is_asked_for_by_that_extra(
    installed: Installed,
) -> None:
    installed.add(
        "some-stores", "some = some_driver:open_store [fast]", some_driver="import nowhere"
    )
    said = await refusal_of("some://me:hunter2@host")
    assert said == (
        "the driver for some:// (of some-stores) needs the package 'nowhere', which is not"
        " installed; try: pip install 'some-stores[fast]'"
    )


async def test_without_an_extra_the_distribution_is_named(installed: Installed) -> None:
    installed.add("some-stores", "some = some_driver:open_store", some_driver="import nowhere")
    said = await refusal_of("some://")
    assert "'nowhere', which is not installed; install it, or some-stores again" in said
    assert "[" not in said


async def test_a_package_that_is_missed_only_while_opening_is_asked_for_too(
    installed: Installed,
) -> None:
    source = """
        async def open_store(url, *, runtime):
            import nowhere
    """
    installed.add("some-stores", "some = some_driver:open_store [fast]", some_driver=source)
    assert "pip install 'some-stores[fast]'" in await refusal_of("some://")


def test_every_extra_that_a_driver_of_ours_names_is_one_of_the_distribution() -> None:
    offered = set(metadata.metadata("stepwell").get_all("Provides-Extra") or ())
    for point in metadata.entry_points(group=opener.DRIVERS):
        assert set(point.extras) <= offered, point


# --- what is broken ---


async def test_a_driver_that_raises_when_it_is_imported_is_named(installed: Installed) -> None:
    installed.add("bad", "bad = bad_driver:open_store", bad_driver="raise ValueError('too old')")
    said = await refusal_of("bad://")
    assert said == (
        "the driver for bad:// (of bad) can't be loaded from 'bad_driver:open_store':"
        " ValueError: too old"
    )
    await (await open_store("memory://", runtime=ManualRuntime())).close()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("", "AttributeError"),
        ("open_store = 'text'", "is not callable, but a str"),
        ("def open_store(url, *, runtime): return 1", "is no async function"),
        ("from stepwell.store.opener import nothing_of_the_kind", "ImportError"),
    ],
)
async def test_an_entry_point_that_names_no_opener_is_refused(
    installed: Installed, source: str, words: str
) -> None:
    installed.add("bad", "bad = bad_driver:open_store", bad_driver=source)
    assert words in await refusal_of("bad://")


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


def test_an_entry_point_of_no_distribution_has_a_refusal_too() -> None:
    point = EntryPoint("some", "nowhere:open_store [fast]", opener.DRIVERS)
    with pytest.raises(StoreRefused, match=r"pip install 'stepwell\[fast\]'"):
        opener._load(point)
