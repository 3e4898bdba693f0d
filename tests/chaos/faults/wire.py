"""A cable to another machine, that can be pulled: whoever is at the other end vanishes without a word.

The other machine is a network namespace, the cable a pair of virtual interfaces. Pulled, it takes packets
and brings none: no FIN, no RST, and nobody says that the other end can't be reached.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from tests.support.backends.required import missing

_numbers = itertools.count()


class Wire(NamedTuple):
    """A namespace with one interface, and what leads there."""

    namespace: str
    near: str
    """Our own address on it."""
    far: str
    """Theirs."""
    interface: str
    """Theirs, as it is called over there."""

    def cut(self) -> None:
        """From now on nothing passes, in either direction."""
        _ip("-n", self.namespace, "link", "set", self.interface, "down")

    def mend(self) -> None:
        """Let packets pass again; the kernel sends again what was lost."""
        _ip("-n", self.namespace, "link", "set", self.interface, "up")

    def over_there(self, *command: str) -> list[str]:
        """Return the command that runs this one at the other end."""
        return ["ip", "netns", "exec", self.namespace, *command]


def _ip(*arguments: str) -> None:
    try:
        subprocess.run(["ip", *arguments], check=True, capture_output=True)
    except subprocess.CalledProcessError as error:
        error.add_note(error.stderr.decode("utf-8", "replace"))
        raise


@contextmanager
def wire() -> Iterator[Wire]:
    """Lay one; skips the test where that isn't allowed."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        missing("netns", "only root may make network namespaces, with iproute2")
    # Two test processes must not meet: each has its own part of a net that nobody else uses.
    part, number = os.getpid() % 16_384, next(_numbers) % 4
    name = f"sw{part}x{number}"
    first = 4 * (4 * part + number)
    net = f"10.{212 + first // 65_536}.{first // 256 % 256}"
    made = Wire(name, f"{net}.{first % 256 + 1}", f"{net}.{first % 256 + 2}", "far0")
    try:
        _ip("netns", "add", name)
    except subprocess.CalledProcessError as error:
        missing("netns", f"no network namespace can be made here: {error.stderr!r}")
    try:
        _lay(made, f"{name}n")
        yield made
    finally:
        # With both of its ends: a namespace that somebody still has a socket in would keep its own for a while.
        with suppress(subprocess.CalledProcessError):
            _ip("link", "del", f"{name}n")
        _ip("netns", "del", name)


def _lay(made: Wire, ours: str) -> None:
    steps: Sequence[str] = (
        f"link add {ours} type veth peer name {made.interface} netns {made.namespace}",
        f"addr add {made.near}/30 dev {ours}",
        f"link set {ours} up",
        f"-n {made.namespace} addr add {made.far}/30 dev {made.interface}",
        f"-n {made.namespace} link set {made.interface} up",
        f"-n {made.namespace} link set lo up",
    )
    for step in steps:
        _ip(*step.split())
