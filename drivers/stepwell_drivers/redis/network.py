"""Routes commands to the server, or to the cluster node that owns the partition, and retries them.

Only this module retries. A call that changed nothing (no connection, a temporary refusal, a moved
slot) is retried for a while, with full jitter. A command that was sent without a reply is retried
only if that is harmless; otherwise its outcome is reported as unknown.

The library's cluster client isn't used, because it retries by itself, also after a lost reply, and
doesn't tell whether the command was sent, which a commit has to know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from stepwell.core.port import Runtime
from stepwell.core.records.errors import OutcomeUnknown, StoreError, StoreUnavailable
from stepwell_drivers.redis.errors import Meaning, Refusal, error_of, meaning_of
from stepwell_drivers.redis.keys import SLOTS
from stepwell_drivers.redis.scripts import Call
from stepwell_drivers.redis.slots import owners_of
from stepwell_drivers.redis.url import Address, Place
from stepwell_drivers.redis.wire import Command, Connection, Lost, Refused, Reply, connect

RETRY_SECONDS = 5.0
"""The time for which a call is retried."""
BACKOFF_SECONDS = 0.02
BACKOFF_SECONDS_MAX = 0.5
CLOSE_SECONDS = 5.0
"""The time that running calls have to end when the store is closed; then they are cut off."""
HOPS_MAX = 8
"""Redirections that a call follows at once before it backs off."""

_ASKING = ("ASKING",)


class Ask(NamedTuple):
    """A command, and the slot of its keys."""

    slot: int
    what: Call | Command

    def command(self, *, with_source: bool = False) -> Command:
        """Return the command as it is sent."""
        if isinstance(self.what, Call):
            return self.what.command(with_source=with_source)
        return self.what


class _Link:
    """A connection to a server, opened when needed and reopened when lost."""

    def __init__(self, network: Network, address: Address) -> None:
        self.open: Connection | None = None
        self._network = network
        self._address = address
        self._opening: asyncio.Task[Connection] | None = None

    def live(self) -> Connection | None:
        """Return the connection if there is one."""
        if self.open is not None and self.open.lost.done():
            self.open = None
        return self.open

    async def ready(self) -> Connection:
        """Return the connection; many callers may wait for it.

        Raises:
            Lost, Refused: it can't be opened.
        """
        connection = self.live()
        if connection is not None:
            return connection
        if self._network.is_over:
            raise Lost("this store was closed", sent=False)
        if self._opening is None:
            opening = self._network.runtime.spawn(self._open(), name="stepwell-redis-connect")
            opening.add_done_callback(_seen)
            self._opening = opening
        opening = self._opening
        # If a caller is cancelled, others may still wait, and the connection is kept in any case.
        await asyncio.wait((opening,))
        if opening.cancelled():
            raise Lost(f"{self._address.name} is asked no more", sent=False)
        return opening.result()

    async def _open(self) -> Connection:
        network = self._network
        try:
            self.open = await connect(network.place, self._address, network.runtime)
        finally:
            self._opening = None
        return self.open

    async def close(self) -> None:
        """Close the connection, also one that is still being opened."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait((self._opening,))
        if self.open is not None:
            await self.open.close()


class Network:
    """The servers of one store."""

    def __init__(self, place: Place, runtime: Runtime) -> None:
        self.place = place
        self.runtime = runtime
        self.closed = False
        """True: no call may begin."""
        self.is_over = False
        """True: no connection may be opened."""
        self._under_way = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._links: dict[tuple[Address, int], _Link] = {}
        self._owners: dict[int, Address] = {}
        """The owner of each slot; empty if there is one server."""
        self._refreshing: asyncio.Task[None] | None = None

    # --- owners of slots ---

    def servers(self) -> list[Address]:
        """Return all servers that accept writes."""
        return sorted(set(self._owners.values())) or [self.place.seeds[0]]

    def owner_of(self, slot: int) -> Address:
        """Return the last known owner of a slot."""
        return self._owners.get(slot) or self.place.seeds[0]

    async def refresh(self) -> int:
        """Read the owners of all slots from the cluster; return how many slots have none.

        Raises:
            StoreUnavailable: no node answers.
        """
        failure: StoreError = StoreUnavailable("no node of the cluster could be asked")
        asked = list(dict.fromkeys([*self.servers(), *self.place.seeds]))
        for address in asked:
            try:
                reply = await self.ask_server(address, ("CLUSTER", "SLOTS"))
            except Lost as error:
                failure = StoreUnavailable(error.words)
                continue
            except Refused as error:
                failure = error_of(error.refusal, address.name)
                continue
            if isinstance(reply, Refusal):
                failure = error_of(reply, address.name)
                continue
            self._owners = owners_of(reply, address)
            await self._close_unused()
            return SLOTS - len(self._owners)
        raise failure

    async def _close_unused(self) -> None:
        """Close connections to servers that no longer own a slot."""
        known = {*self._owners.values(), *self.place.seeds}
        for key in [key for key in self._links if key[0] not in known]:
            await self._links.pop(key).close()

    def _refresh_soon(self) -> None:
        if self.place.is_cluster and self._refreshing is None and not self.closed:
            self._refreshing = self.runtime.spawn(self._refresh(), name="stepwell-redis-slots")

    async def _refresh(self) -> None:
        try:
            await self.refresh()
        except StoreUnavailable:
            pass  # The next call that needs a missing slot asks again, and reports it.
        finally:
            self._refreshing = None

    def _link(self, address: Address, number: int) -> _Link:
        key = (address, number % self.place.connections)
        link = self._links.get(key)
        if link is None:
            link = self._links[key] = _Link(self, address)
        return link

    # --- calls ---

    async def ask(self, ask: Ask, *, again: bool = True) -> Reply:
        """Send a command, and retry for a while until it is answered; `again`: it may be executed
        twice.

        Raises:
            StoreUnavailable: nothing was done, or it doesn't matter (`again`).
            OutcomeUnknown: it may have been done (without `again`).
        """
        with self._begun():
            reply, _ = await self._ask(ask, again=again, then=None)
            return reply

    async def ask_all(self, asks: Sequence[Ask]) -> list[Reply]:
        """Send commands together that may be executed twice; return the replies in order."""
        with self._begun():
            replies = await self._ask_together(asks, again=True, then=None)
        for reply in replies:
            if isinstance(reply, StoreError):
                raise reply
        return replies

    async def commit_all(self, asks: Sequence[Ask]) -> list[Reply | StoreError]:
        """Send commits together, and repeat one only where that is known to be safe; return the
        results in order.

        With `?wait=N`, a commit counts as done once N replicas have it.
        """
        place = self.place
        then = ("WAIT", place.wait, place.wait_ms) if place.wait else None
        with self._begun():
            return await self._ask_together(asks, again=False, then=then)

    async def _ask_together(
        self, asks: Sequence[Ask], *, again: bool, then: Command | None
    ) -> list[Reply | StoreError]:
        """Send commands in one write, and retry those that failed."""
        sent: list[tuple[Connection, asyncio.Future[Reply]] | None] = []
        for ask in asks:
            connection = self._link(self.owner_of(ask.slot), ask.slot).live()
            sent.append(None if connection is None else (connection, connection.ask(ask.command())))
        used = dict.fromkeys(one[0] for one in sent if one is not None)
        # One WAIT for all commands of a connection is enough: it waits for the last of them.
        acks = {one: one.ask(then) for one in used} if then is not None else {}
        results: list[Reply | StoreError] = []
        patient: list[int] = []
        for at, one in enumerate(sent):
            result = None if one is None else await self._resolve(one, acks, again=again)
            if one is None or isinstance(result, Lost | Refusal):
                patient.append(at)
            results.append(result)
        if patient:
            waited = [self._retry(asks[at], again=again, then=then) for at in patient]
            for at, result in zip(patient, await asyncio.gather(*waited), strict=True):
                results[at] = result
        return results

    async def _resolve(
        self,
        sent: tuple[Connection, asyncio.Future[Reply]],
        acks: dict[Connection, asyncio.Future[Reply]],
        *,
        again: bool,
    ) -> Reply | StoreError | Lost:
        """Return the reply, or an error; a `Lost` may still be retried."""
        connection, future = sent
        try:
            reply: Reply = await future
            if acks and not isinstance(reply, Refusal):
                self._check_acknowledged(await acks[connection])
        except Lost as error:
            return OutcomeUnknown(error.words) if error.sent and not again else error
        except OutcomeUnknown as error:
            return error
        return reply

    async def _retry(self, ask: Ask, *, again: bool, then: Command | None) -> Reply | StoreError:
        try:
            reply, acks = await self._ask(ask, again=again, then=then)
            if then is not None:
                self._check_acknowledged(acks)
        except StoreError as error:
            return error
        return reply

    def _check_acknowledged(self, acks: Reply) -> None:
        wanted = self.place.wait
        if isinstance(acks, int) and acks >= wanted:
            return
        had = acks if isinstance(acks, int) else 0
        raise OutcomeUnknown(
            f"{had} of the {wanted} replicas that ?wait= asks for had it after"
            f" {self.place.wait_ms} ms; look at the replicas, or ask for fewer"
        )

    async def _ask(self, ask: Ask, *, again: bool, then: Command | None) -> tuple[Reply, Reply]:
        until = asyncio.get_running_loop().time() + RETRY_SECONDS
        failures = hops = 0
        with_source = False
        elsewhere: Address | None = None
        while True:
            address = elsewhere or self.owner_of(ask.slot)
            failure: StoreError
            try:
                connection = await self._link(address, ask.slot).ready()
                if elsewhere is not None:
                    connection.ask(_ASKING).add_done_callback(_seen)
                asked = connection.ask(ask.command(with_source=with_source))
                acks = connection.ask(then) if then is not None else None
                reply = await asked
                if not isinstance(reply, Refusal):
                    return reply, None if acks is None else await acks
            except Refused as error:
                raise error_of(error.refusal, address.name) from None
            except Lost as error:
                if error.sent and not again:
                    raise OutcomeUnknown(error.words) from None
                failure = StoreUnavailable(error.words)
                elsewhere = None
                self._refresh_soon()
            else:
                if acks is not None:
                    acks.add_done_callback(_seen)
                meaning = meaning_of(reply)
                failure = error_of(reply, address.name)
                if meaning is Meaning.NO_SCRIPT:
                    with_source = True
                    continue
                if meaning in {Meaning.MOVED, Meaning.ASK}:
                    elsewhere = self._follow(ask.slot, reply, address)
                    hops += 1
                    if hops <= HOPS_MAX:
                        continue
                    elsewhere = None
                elif meaning in {Meaning.LATER, Meaning.ELSEWHERE}:
                    elsewhere = None
                    if meaning is Meaning.ELSEWHERE:
                        # The host name may resolve to another server now: reconnect.
                        connection.end("is a replica now")
                    self._refresh_soon()
                else:
                    raise failure
            failures += 1
            pause_s = self.backoff(failures)
            if asyncio.get_running_loop().time() + pause_s >= until:
                raise failure
            await self.runtime.sleep(pause_s)

    def _follow(self, slot: int, refusal: Refusal, asked: Address) -> Address | None:
        """Record the new owner of a slot; return the server to ask once (ASK), if any."""
        _, _, where = refusal.words.partition(" ")
        host, _, port = where.rpartition(":")
        if not port.isdecimal() or not self.place.is_cluster:
            return None
        address = Address(host.strip("[]") or asked.host, int(port))
        if refusal.code == "ASK":
            return address
        self._owners[slot] = address
        self._refresh_soon()
        return None

    def backoff(self, failures: int) -> float:
        """Return how many seconds to wait after so many failures in a row, with full jitter."""
        longest = min(BACKOFF_SECONDS_MAX, BACKOFF_SECONDS * 2.0 ** min(failures, 30))
        return self.runtime.random() * longest

    async def ask_server(self, address: Address, sent: Command) -> Reply:
        """Send a command to one server, whatever slots it owns; return its reply, which may be a
        refusal.

        Raises:
            Lost, Refused: it can't be reached.
        """
        return await (await self._link(address, 0).ready()).ask(sent)

    async def listen(self, address: Address, on_message: Callable[[Reply], None]) -> Connection:
        """Open a connection of its own for published messages."""
        return await connect(self.place, address, self.runtime, on_message)

    # --- closing ---

    def check_open(self) -> None:
        """Raise if the store was closed."""
        if self.closed:
            raise StoreUnavailable("this store was closed")

    @contextmanager
    def _begun(self) -> Generator[None]:
        """Delay the store's close while a call runs; refuse calls that begin after it."""
        self.check_open()
        self._under_way += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._under_way -= 1
            if self._under_way == 0:
                self._quiet.set()

    async def close(self) -> None:
        """Wait a while for running calls, then close all connections."""
        self.closed = True
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._quiet.wait()
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.wait((self._refreshing,))
        self.is_over = True
        for link in list(self._links.values()):
            await link.close()
        self._links.clear()


def _seen(future: asyncio.Future[Any]) -> None:
    """Retrieve a future's error that no caller awaits."""
    if not future.cancelled():
        future.exception()
