"""Opens a store: reads the URL, finds the token, and asks the service to describe itself."""

from __future__ import annotations

from stepwell.core.port import Runtime, Store
from stepwell_client.store.v1 import store_pb2
from stepwell_drivers.remote.access import Access
from stepwell_drivers.remote.errors import Fault, refusal_at_open
from stepwell_drivers.remote.link import Link
from stepwell_drivers.remote.store import RemoteStore
from stepwell_drivers.remote.url import parse


async def open_store(url: str, *, runtime: Runtime) -> Store:
    """Open the store behind the Store service that the URL names.

    Raises:
        StoreRefused: the URL names no service, the token is refused, or the server is no Store
            service.
        StoreUnavailable: nothing answers there.
    """
    place = parse(url)
    access = Access(place.token_file, must_be_named=place.wants_token)
    link = Link(place, access, runtime)
    answer: object = None
    try:
        answer = await link.ask(link.stub.Describe, store_pb2.DescribeRequest())
    finally:
        if not isinstance(answer, store_pb2.DescribeResponse):
            await link.close()
    if isinstance(answer, Fault):
        raise refusal_at_open(answer)
    return RemoteStore(link, runtime)
