"""Opening by URL: the scheme picks the driver, and no message tells a password."""

import pytest

from stepwell.core.errors import StoreRefused
from stepwell.stores import mask_url, open_store
from stepwell.testing.runtime import ManualRuntime


@pytest.mark.parametrize("url", ["oracle://x", "memory", "", "://", "Memory://", "/tmp/x.db"])
async def test_an_unknown_scheme_is_refused_and_the_known_ones_are_named(url: str) -> None:
    with pytest.raises(StoreRefused, match=r"known: .*memory://"):
        await open_store(url, runtime=ManualRuntime())


async def test_a_refusal_tells_no_password() -> None:
    with pytest.raises(StoreRefused) as refused:
        await open_store("oracle://me:hunter2@host/db?token=hunter3", runtime=ManualRuntime())
    assert "hunter" not in str(refused.value)
    assert "me:***@host" in str(refused.value)


async def test_a_driver_whose_package_is_missing_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from importlib.metadata import EntryPoint

    from stepwell import stores

    broken = EntryPoint("redis", "no_such_package.redis:open_store", stores.DRIVERS)
    monkeypatch.setattr(stores, "entry_points", lambda group: [broken])
    with pytest.raises(StoreRefused, match=r"pip install 'stepwell\[redis\]'"):
        await open_store("redis://host", runtime=ManualRuntime())


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
