"""A Redis or Valkey cluster of our own: three masters, with replicas where asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self
from urllib.parse import quote

from tests.support.backends.child import NotStarted, until
from tests.support.backends.redis import Redis
from tests.support.backends.redis_client import WARDEN, WARDEN_PASSWORD
from tests.support.patience import PATIENCE_S

SLOTS = 16_384
# A master that has just come up waits two seconds before it takes writes.
MIGRATE_MS = 10_000


def _ask(node: Redis, *command: str | int) -> Any:
    """One command, its answer as the server sent it."""
    with node.admin() as client:
        for name in list(client.response_callbacks):
            if name.startswith("CLUSTER"):
                del client.response_callbacks[name]
        return client.execute_command(*command)


class RedisCluster:
    """Nodes 0 to `masters` - 1 begin as masters, with the slots shared out; replicas follow them.

    `missing` is a range of slots, both ends included, that nobody serves.
    """

    def __init__(
        self,
        kind: str = "redis",
        *,
        masters: int = 3,
        replicas: int = 0,
        missing: tuple[int, int] | None = None,
        node_timeout_ms: int = 1_000,
        password: str | None = None,
        settings: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        self.password = password
        self.masters = masters
        self.missing = set(range(missing[0], missing[1] + 1)) if missing else set[int]()
        self.nodes = [
            Redis(
                kind,
                cluster=True,
                password=password,
                settings={
                    "cluster-node-timeout": str(node_timeout_ms),
                    "cluster-require-full-coverage": "yes",
                    "cluster-replica-validity-factor": "0",
                    **(settings or {}),
                },
                **options,
            )
            for _ in range(masters * (1 + replicas))
        ]
        self._joined = False
        self._ids: dict[int, str] = {}

    # Its life

    def start(self) -> Self:
        """Starts what is down, and waits until every node knows every other."""
        for node in self.nodes:
            node.start()
        if not self._joined:
            self._join()
            self._joined = True
        self.wait_ready()
        return self

    def _join(self) -> None:
        for index, node in enumerate(self.nodes[: self.masters]):
            first = SLOTS * index // self.masters
            last = SLOTS * (index + 1) // self.masters
            slots = [slot for slot in range(first, last) if slot not in self.missing]
            if slots:
                _ask(node, "CLUSTER", "ADDSLOTS", *slots)
        for index, node in enumerate(self.nodes):
            _ask(node, "CLUSTER", "SET-CONFIG-EPOCH", index + 1)
            self.id_of(index)
        self._wait(self._knows_all)
        for index, node in enumerate(self.nodes[self.masters :]):
            _ask(node, "CLUSTER", "REPLICATE", self.id_of(index % self.masters))

    def _knows_all(self, node: Redis) -> bool:
        """Return true if it knows every other by name; those it doesn't it is made to meet.

        A meeting is forgotten when either of the two stands still for a second.
        """
        known = {line[0] for line in self._lines(node)}
        unknown = [at for at in range(len(self.nodes)) if self.id_of(at) not in known]
        for other in (self.nodes[at] for at in unknown):
            _ask(node, "CLUSTER", "MEET", "127.0.0.1", other.port, other.bus_port)
        return not unknown

    def _wait(self, ready: Any, nodes: Iterable[Redis] | None = None) -> None:
        some = [node for node in self.nodes if node.running] if nodes is None else list(nodes)
        if not until(lambda: all(map(ready, some)), PATIENCE_S):
            states = "\n".join(f"{node.port}: {self._info(node)}" for node in some)
            raise NotStarted(f"the cluster is not ready after {PATIENCE_S:g} s:\n{states}")

    @staticmethod
    def _info(node: Redis) -> dict[str, str]:
        lines = str(_ask(node, "CLUSTER", "INFO")).split()
        return dict(line.split(":", 1) for line in lines)

    def _is_ready(self, node: Redis) -> bool:
        info = self._info(node)
        state = "fail" if self.missing else "ok"
        if (info["cluster_state"], int(info["cluster_slots_ok"])) != (
            state,
            SLOTS - len(self.missing),
        ):
            return False
        role = _ask(node, "ROLE")
        return role[0] == "master" or role[3] == "connected"

    def wait_ready(self) -> None:
        """Waits until the nodes that run agree that all slots are served that should be."""
        self._wait(self._is_ready)

    def close(self) -> None:
        for node in self.nodes:
            node.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    # What is in it

    def url(
        self,
        *,
        ports: Iterable[int] | None = None,
        scheme: str = "redis+cluster",
        all_nodes: bool = False,
        **options: str,
    ) -> str:
        """One address is enough for a client, while that node is up; `ports` may be those of proxies."""
        who = "" if self.password is None else f":{quote(self.password, safe='')}@"
        named = list(ports or (node.port for node in self.nodes))
        places = ",".join(f"127.0.0.1:{port}" for port in named[: None if all_nodes else 1])
        query = "&".join(f"{key}={value}" for key, value in options.items())
        return f"{scheme}://{who}{places}{query and '?' + query}"

    def flush(self) -> None:
        """Nothing is left: no keys, no scripts."""
        for node in self.nodes:
            if _ask(node, "ROLE")[0] == "master":
                node.flush()

    def announce(self, index: int, port: int) -> None:
        """Tells clients another port for a node: that of a proxy in front of it."""
        self.nodes[index].configure(cluster_announce_port=str(port))

    def wait_announced(self) -> None:
        """Waits until the nodes that run tell the same ports: what one announces reaches the others later."""
        some = [node for node in self.nodes if node.running]

        def agreed(_node: Redis) -> bool:
            announced = [{line[0]: line[1] for line in self._lines(node)} for node in some]
            return all(one == announced[0] for one in announced)

        self._wait(agreed, some[:1])

    def id_of(self, index: int) -> str:
        """Its name for life; known also while it is down or frozen."""
        if index not in self._ids:
            self._ids[index] = str(_ask(self.nodes[index], "CLUSTER", "MYID"))
        return self._ids[index]

    def owner(self, slot: int) -> int:
        """Which node serves it, in the words of one that runs."""
        witness = next(node for node in self.nodes if node.running)
        for first, last, master, *_ in _ask(witness, "CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return next(i for i in range(len(self.nodes)) if self.id_of(i) == master[2])
        raise LookupError(f"nobody serves slot {slot}")

    # Masters that die

    def replica_of(self, index: int) -> int:
        """A node that runs and follows this one, whether or not this one does."""
        for at, node in enumerate(self.nodes):
            if node.running and at != index and self._master_of(node) == self.id_of(index):
                return at
        raise LookupError(f"nobody follows node {index}")

    @staticmethod
    def _lines(node: Redis) -> list[list[str]]:
        return [line.split() for line in str(_ask(node, "CLUSTER", "NODES")).splitlines()]

    def _master_of(self, node: Redis) -> str:
        """Whom it follows, in its own words; `-`: it is a master."""
        return next(line[3] for line in self._lines(node) if "myself" in line[2])

    def take_over(self, index: int) -> None:
        """A replica makes itself the master and asks nobody, as an operator would have it do."""
        _ask(self.nodes[index], "CLUSTER", "FAILOVER", "TAKEOVER")

    def wait_led(self, index: int) -> None:
        """Waits until this one has been elected."""
        self._wait(lambda node: _ask(node, "ROLE")[0] == "master", [self.nodes[index]])

    def wait_followed(self, index: int) -> None:
        """Waits until all agree that this one is a master, and it has a replica that is up to date."""
        name = self.id_of(index)
        self._wait(lambda node: self._is_ready(node) and self._knows_pair(node, name))

    def _knows_pair(self, node: Redis, name: str) -> bool:
        lines = self._lines(node)
        leads = any(line[0] == name and "master" in line[2] for line in lines)
        # Not by looking for the word in all flags: `nofailover` is one, too.
        failing = {"fail", "fail?"}
        return leads and any(
            line[3] == name and failing.isdisjoint(line[2].split(",")) for line in lines
        )

    # Slots on the move

    def begin_move(self, slot: int, to: int) -> None:
        """From now on keys of the slot that aren't there are asked for at the new place (ASK)."""
        source = self.owner(slot)
        _ask(self.nodes[to], "CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        _ask(self.nodes[source], "CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(to))

    def move_keys(self, slot: int, to: int, *, limit: int = 1_000_000) -> int:
        """Carries keys over, up to a limit; between some and all, the rest answer TRYAGAIN."""
        source = self.nodes[self.owner(slot)]
        keys = _ask(source, "CLUSTER", "GETKEYSINSLOT", slot, limit)
        if keys:
            target = ("127.0.0.1", self.nodes[to].port, "", 0, MIGRATE_MS)
            _ask(source, "MIGRATE", *target, "AUTH2", WARDEN, WARDEN_PASSWORD, "KEYS", *keys)
        return len(keys)

    def finish_move(self, slot: int, to: int) -> None:
        """Announce the new place to all; clients that ask the old one are sent on (MOVED)."""
        others = [i for i in range(len(self.nodes)) if i not in (to, self.owner(slot))]
        for index in (to, self.owner(slot), *others):
            node = self.nodes[index]
            if node.running and _ask(node, "ROLE")[0] == "master":
                _ask(node, "CLUSTER", "SETSLOT", slot, "NODE", self.id_of(to))
