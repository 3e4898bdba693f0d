"""Properties of the web console's built page, checked with or without Node."""

from __future__ import annotations

import gzip
import re

from scripts import console

_BYTES_MAX = 120 * 1024


def test_assets_are_built_from_the_sources_as_they_are() -> None:
    assert console.is_fresh(), "run `make console`"


def test_all_assets_together_are_under_120_kib_compressed() -> None:
    sizes = {path.name: len(gzip.compress(path.read_bytes())) for path in console.ASSETS.iterdir()}
    assert sum(sizes.values()) < _BYTES_MAX, sizes


def test_page_loads_nothing_but_its_own_assets() -> None:
    page = (console.ASSETS / "index.html").read_text(encoding="utf-8")
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert loaded
    for address in loaded:
        name = address.removeprefix("/assets/")
        assert name != address, address
        assert (console.ASSETS / name).is_file(), address
    assert "style=" not in page
    assert not re.search(r"<script(?![^>]*\bsrc=)", page)


def test_style_names_no_address() -> None:
    for path in console.ASSETS.glob("*.css"):
        assert not re.search(r"url\(|@import", path.read_text(encoding="utf-8")), path.name


def test_lock_names_no_address_and_a_digest_for_each_package() -> None:
    lock = (console.SOURCES / "package-lock.json").read_text(encoding="utf-8")
    assert "://" not in lock
    assert lock.count('"integrity"') > 10


def test_licences_of_bundled_packages_are_in_the_assets() -> None:
    licences = (console.ASSETS / "LICENSES.txt").read_text(encoding="utf-8")
    for name in ("preact", "@connectrpc/connect-web", "@bufbuild/protobuf"):
        assert f"\n{name} " in licences
    assert "Apache License" in licences


def test_sources_are_short() -> None:
    folders = [console.SOURCES / "src", console.SOURCES / "tests"]
    for path in (path for folder in folders for path in folder.rglob("*.ts*")):
        if "gen" not in path.parts:
            assert len(path.read_text(encoding="utf-8").splitlines()) < 350, path
