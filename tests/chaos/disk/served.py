"""The file system's process: answers the kernel, and obeys its owner at the other end of a socket.

    python -m tests.chaos.disk.served FOLDER DESCRIPTOR

It ends, and unmounts, when the owner's end of the socket is closed, however that came about.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.chaos.disk import wire
from tests.chaos.disk.gate import ALL, Fault, Frozen, Gate
from tests.chaos.disk.stored import Survival
from tests.chaos.disk.tree import Tree
from tests.chaos.disk.wire import Op

KIND = b"fuse.stepwell"
_NOSUID, _NODEV, _DETACH = 2, 4, 2
_LIBC = ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class Mount:
    """One session with the kernel."""

    def __init__(self, folder: Path) -> None:
        self._folder = os.fsencode(folder)
        self.file = os.open("/dev/fuse", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        options = f"fd={self.file},rootmode=40755,user_id={os.geteuid()},group_id={os.getegid()}"
        options += ",allow_other,default_permissions"
        _checked(_LIBC.mount(b"stepwell", self._folder, KIND, _NOSUID | _NODEV, options.encode()))

    def end(self) -> None:
        """Leave; whoever waits for an answer gets an error."""
        os.close(self.file)
        _LIBC.umount2(self._folder, _DETACH)


class Served:
    """The file system over all its mounts."""

    def __init__(self, folder: Path, owner: socket.socket) -> None:
        self._folder = folder
        self._owner = owner
        self._lines = owner.makefile("rb")
        self._buffer = bytearray(wire.BUFFER_BYTES)
        self.gate = Gate()
        self.tree = Tree(self.gate)
        self._saved = self.tree
        self.frozen = False
        self._held = 0
        """The request at which power went off."""
        self._mount = Mount(folder)
        self._obeys: dict[str, Callable[..., Any]] = {
            "sync": self._sync,
            "cut_at": lambda nth, ops: self.gate.cut_at(nth, _ops(ops)),
            "fail": self._fail,
            "clear": self._clear,
            "counted": self._counted,
            "freeze": self._freeze,
            "thaw": self._thaw,
            "restart": self._restart,
            "save": self._save,
            "back": self._back,
        }

    def run(self) -> None:
        """Serve until the owner is gone."""
        try:
            while True:
                waited = [self._owner] if self.frozen else [self._owner, self._mount.file]
                ready, _, _ = select.select(waited, [], [])
                if self._owner in ready and not self._obey():
                    return
                if self._mount.file in ready and not self.frozen:
                    self._serve()
        finally:
            self._mount.end()

    # --- the owner ---------------------------------------------------------------------------------

    def _obey(self) -> bool:
        line = self._lines.readline()
        if not line:
            return False
        name, *arguments = json.loads(line)
        self._write({"done": self._obeys[name](*arguments)})
        return True

    def _write(self, words: dict[str, Any]) -> None:
        self._owner.sendall(json.dumps(words).encode() + b"\n")

    def _fail(self, nth: int, number: int, ops: list[str], forever: bool) -> None:
        self.gate.fail(Fault(nth, number, _ops(ops), forever))

    def _counted(self) -> list[object]:
        return [self.gate.count, [op.name for op in self.gate.refused]]

    def _clear(self) -> list[object]:
        counted = self._counted()
        self.gate.clear()
        return counted

    def _sync(self) -> None:
        self.tree.sync()

    def _freeze(self) -> None:
        self.frozen = True

    def _thaw(self) -> None:
        """Go on as if nothing had been; who waited for the answer is gone."""
        self.gate.clear()
        self.frozen = False
        if self._held:
            self._reply(self._held, -errno.EIO, b"")
            self._held = 0

    def _restart(self, *survival: Any) -> None:
        """Power comes back: all who wait get an error, and what the disk has is there."""
        self._mount_anew(self.tree.after_cut(Survival(*survival)))

    def _mount_anew(self, tree: Tree) -> None:
        self._mount.end()
        self.gate.clear()
        self.tree = tree
        self.frozen, self._held = False, 0
        self._mount = Mount(self._folder)

    def _save(self) -> None:
        """Keep what the disk has now, for `back`."""
        self._saved = self.tree.after_cut(Survival())

    def _back(self) -> None:
        """Everything is as it was when it was saved."""
        self._mount_anew(self._saved.after_cut(Survival()))

    # --- the kernel --------------------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            length = os.readv(self._mount.file, [self._buffer])
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EINTR, errno.ENOENT):
                return
            raise
        _, op, unique, number, uid, gid, *_ = wire.REQUEST.unpack_from(self._buffer)
        body = memoryview(self._buffer)[wire.REQUEST.size : length]
        if op == Op.INIT:
            self._reply(unique, 0, _init(body))
            return
        try:
            answer = self.tree.answer(op, number, (uid, gid), body)
        except Frozen:
            self.frozen, self._held = True, unique
            self._write({"frozen": self.gate.count})
            return
        except OSError as error:
            self._reply(unique, -(error.errno or errno.EIO), b"")
            return
        if op not in wire.UNANSWERED:
            self._reply(unique, 0, answer)

    def _reply(self, unique: int, error: int, answer: bytes) -> None:
        head = wire.REPLY.pack(wire.REPLY.size + len(answer), error, unique)
        # It is not found if who asked was killed.
        with suppress(FileNotFoundError):
            os.writev(self._mount.file, [head, answer])


def _ops(names: list[str]) -> frozenset[Op]:
    return frozenset(Op[name] for name in names) if names else ALL


def _init(body: memoryview) -> bytes:
    """Agree on large writes, and that nobody opens or closes: files are known by their nodes."""
    _, _, readahead, offered = wire.INIT_IN.unpack_from(body)
    flags = offered & (wire.BIG_WRITES | wire.MAX_PAGES | wire.NO_OPEN | wire.NO_OPENDIR)
    pages = wire.WRITE_BYTES_MAX // 4_096
    return wire.INIT_OUT.pack(
        wire.MAJOR, wire.MINOR, readahead, flags, 12, 9, wire.WRITE_BYTES_MAX, 1, pages, 0, 0, 0, 0
    )


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[2])) as _owner:
        Served(Path(sys.argv[1]), _owner).run()
