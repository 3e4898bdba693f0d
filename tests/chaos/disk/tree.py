"""Files and folders in memory, as the kernel asks for them, with what the disk has of each.

A file's mode, owner and times are kept at once: nothing here depends on them.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable

from tests.chaos.disk import wire
from tests.chaos.disk.gate import Gate
from tests.chaos.disk.stored import PAGE, Contents, Names, Survival
from tests.chaos.disk.wire import Op

ROOT = 1
SECONDS_VALID = 3_600
"""Nobody but the kernel changes anything, so what it knows stays true."""
_SYNCS = os.O_SYNC | os.O_DSYNC


class Node:
    """A file, a folder or a link."""

    def __init__(self, number: int, mode: int, uid: int, gid: int) -> None:
        self.number = number
        self.mode, self.uid, self.gid = mode, uid, gid
        self.changed_ns = time.time_ns()
        self.contents = Contents()
        self.names: Names[Node] = Names()
        self.links = 1
        self.lookups = 0

    def like(self, number: int, contents: Contents) -> Node:
        """Return another node of the same kind and owner."""
        node = Node(number, self.mode, self.uid, self.gid)
        node.contents, node.links, node.changed_ns = contents, 0, self.changed_ns
        return node

    def attributes(self) -> bytes:
        size = len(self.contents.data)
        seconds, rest = divmod(self.changed_ns, 1_000_000_000)
        times = (seconds, seconds, seconds, rest, rest, rest)
        fixed = (self.mode, self.links, self.uid, self.gid, 0, PAGE, 0)
        return wire.ATTRIBUTES.pack(self.number, size, -(-size // 512), *times, *fixed)


class Tree:
    """One file system from mount to mount."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.nodes: dict[int, Node] = {}
        self._next = ROOT
        self._new(stat.S_IFDIR | 0o755, os.geteuid(), os.getegid())
        self._does: dict[int, Callable[[Node, int, int, bytes], bytes]] = {
            Op.LOOKUP: self._lookup,
            Op.GETATTR: lambda node, *_: _attributes(node),
            Op.SETATTR: self._set,
            Op.READLINK: lambda node, *_: bytes(node.contents.data),
            Op.SYMLINK: self._symlink,
            Op.MKNOD: self._mknod,
            Op.MKDIR: self._mkdir,
            Op.UNLINK: self._unlink,
            Op.RMDIR: self._unlink,
            Op.RENAME: self._rename,
            Op.RENAME2: self._rename2,
            Op.LINK: self._link,
            Op.READ: self._read,
            Op.WRITE: self._write,
            Op.STATFS: self._statfs,
            Op.FSYNC: self._fsync,
            Op.FSYNCDIR: self._fsync_folder,
            Op.READDIR: self._list,
        }

    def answer(self, op: int, number: int, user: tuple[int, int], body: memoryview) -> bytes:
        """Do what the kernel asks.

        Raises:
            OSError: it can't be done, or shall fail.
            Frozen: power is off from here on.
        """
        if op == Op.FORGET:
            self._forget(number, wire.NODE_IN.unpack(body)[0])
            return b""
        if op == Op.BATCH_FORGET:
            for found, count in wire.FORGET_ONE.iter_unpack(body[wire.BATCH_IN.size :]):
                self._forget(found, count)
            return b""
        do = self._does.get(op)
        if do is None:
            raise OSError(errno.ENOSYS, "not here")
        return do(self.nodes[number], *user, bytes(body))

    # --- names -------------------------------------------------------------------------------------

    def _new(self, mode: int, uid: int, gid: int) -> Node:
        node = self.nodes[self._next] = Node(self._next, mode, uid, gid)
        self._next += 1
        return node

    def _forget(self, number: int, count: int) -> None:
        node = self.nodes.get(number)
        if node is not None:
            node.lookups -= count
            self._drop(node)

    def _drop(self, node: Node) -> None:
        if node.lookups <= 0 and node.links <= 0:
            self.nodes.pop(node.number, None)

    def _entry(self, node: Node) -> bytes:
        node.lookups += 1
        valid = (SECONDS_VALID, SECONDS_VALID, 0, 0)
        return wire.ENTRY_OUT.pack(node.number, 0, *valid) + node.attributes()

    def _lookup(self, folder: Node, _uid: int, _gid: int, body: bytes) -> bytes:
        return self._entry(_named(folder, wire.names(body)[0]))

    def _add(self, folder: Node, name: bytes, node: Node) -> bytes:
        folder.names.change({name: node})
        return self._entry(node)

    def _mknod(self, folder: Node, uid: int, gid: int, body: bytes) -> bytes:
        self.gate.passes(Op.MKNOD)
        mode, _, mask, _ = wire.MKNOD_IN.unpack_from(body)
        (name,) = wire.names(body[wire.MKNOD_IN.size :])
        return self._add(folder, name, self._new(mode & ~mask, uid, gid))

    def _mkdir(self, folder: Node, uid: int, gid: int, body: bytes) -> bytes:
        self.gate.passes(Op.MKDIR)
        mode, mask = wire.MKDIR_IN.unpack_from(body)
        (name,) = wire.names(body[wire.MKDIR_IN.size :])
        return self._add(folder, name, self._new(stat.S_IFDIR | (mode & ~mask), uid, gid))

    def _symlink(self, folder: Node, uid: int, gid: int, body: bytes) -> bytes:
        name, target = wire.names(body)
        node = self._new(stat.S_IFLNK | 0o777, uid, gid)
        node.contents = Contents(target)
        return self._add(folder, name, node)

    def _link(self, folder: Node, _uid: int, _gid: int, body: bytes) -> bytes:
        (number,) = wire.NODE_IN.unpack_from(body)
        (name,) = wire.names(body[wire.NODE_IN.size :])
        node = self.nodes[number]
        node.links += 1
        return self._add(folder, name, node)

    def _unlink(self, folder: Node, _uid: int, _gid: int, body: bytes) -> bytes:
        self.gate.passes(Op.UNLINK)
        (name,) = wire.names(body)
        node = _named(folder, name)
        if node.names.entries:
            raise OSError(errno.ENOTEMPTY, "not empty")
        folder.names.change({name: None})
        self._unlinked(node)
        return b""

    def _unlinked(self, node: Node) -> None:
        node.links -= 1
        self._drop(node)

    def _rename2(self, folder: Node, _uid: int, _gid: int, body: bytes) -> bytes:
        target, flags, _ = wire.RENAME2_IN.unpack_from(body)
        if flags:
            raise OSError(errno.EINVAL, "no flags")
        return self._rename(folder, 0, 0, wire.NODE_IN.pack(target) + body[wire.RENAME2_IN.size :])

    def _rename(self, folder: Node, _uid: int, _gid: int, body: bytes) -> bytes:
        self.gate.passes(Op.RENAME)
        target = self.nodes[wire.NODE_IN.unpack_from(body)[0]]
        old, new = wire.names(body[wire.NODE_IN.size :])
        node = _named(folder, old)
        replaced = target.names.entries.get(new)
        if target is folder:
            folder.names.change({old: None, new: node})
        else:
            target.names.change({new: node})
            folder.names.change({old: None})
        if replaced is not None and replaced is not node:
            self._unlinked(replaced)
        return b""

    def _list(self, folder: Node, _uid: int, _gid: int, body: bytes) -> bytes:
        _, offset, size, *_ = wire.READ_IN.unpack(body)
        listed = b""
        for at, (name, node) in enumerate(folder.names.entries.items()):
            if at >= offset:
                entry = wire.dirent(at + 1, node.number, stat.S_IFMT(node.mode) >> 12, name)
                if len(listed) + len(entry) > size:
                    break
                listed += entry
        return listed

    # --- bytes -------------------------------------------------------------------------------------

    def _set(self, node: Node, _uid: int, _gid: int, body: bytes) -> bytes:
        fields = wire.SETATTR_IN.unpack(body)
        which, size, mode, uid, gid = fields[0], fields[3], fields[11], fields[13], fields[14]
        if which & wire.SET_SIZE and size != len(node.contents.data):
            self.gate.passes(Op.SETATTR)
            node.contents.resize(size)
            node.changed_ns = time.time_ns()
        if which & wire.SET_MODE:
            node.mode = mode
        if which & wire.SET_UID:
            node.uid = uid
        if which & wire.SET_GID:
            node.gid = gid
        if which & wire.SET_MTIME:
            now = which & wire.SET_MTIME_NOW
            node.changed_ns = time.time_ns() if now else fields[6] * 1_000_000_000 + fields[9]
        return _attributes(node)

    def _read(self, node: Node, _uid: int, _gid: int, body: bytes) -> bytes:
        _, offset, size, *_ = wire.READ_IN.unpack(body)
        return bytes(node.contents.data[offset : offset + size])

    def _write(self, node: Node, _uid: int, _gid: int, body: bytes) -> bytes:
        _, offset, size, written_by, _, flags, _ = wire.WRITE_IN.unpack_from(body)
        if not written_by & wire.WRITE_CACHE:
            self.gate.passes(Op.WRITE)
        # A copy: the request's buffer is the next one's, too.
        node.contents.write(offset, bytes(body[wire.WRITE_IN.size :]))
        node.changed_ns = time.time_ns()
        if flags & _SYNCS:
            self._fsync(node, 0, 0, b"")
        return wire.WRITE_OUT.pack(size, 0)

    def _fsync(self, node: Node, _uid: int, _gid: int, _body: bytes) -> bytes:
        try:
            self.gate.passes(Op.FSYNC)
        except OSError:
            node.contents.fail_to_sync()
            raise
        node.contents.sync()
        return b""

    def _fsync_folder(self, node: Node, _uid: int, _gid: int, _body: bytes) -> bytes:
        self.gate.passes(Op.FSYNCDIR)
        node.names.sync()
        return b""

    def _statfs(self, *_: object) -> bytes:
        blocks = (8 << 30) // PAGE
        return wire.STATFS_OUT.pack(blocks, blocks, blocks, 1 << 20, 1 << 20, PAGE, 255, PAGE, 0)

    # --- the whole ---------------------------------------------------------------------------------

    def after_cut(self, survival: Survival) -> Tree:
        """Return the file system as it is found when power comes back."""
        tree = Tree(self.gate)
        seen: dict[Node, Node] = {}

        def copy(node: Node, folder: Node, name: bytes, path: str) -> None:
            own = survival._replace(seed=f"{survival.seed}{path}" if survival.seed else "")
            if node not in seen:
                seen[node] = tree._put(node.like(0, Contents(node.contents.after_cut(own))))
                fill(node, seen[node], own, path)
            tree._enter(folder, name, seen[node])

        def fill(old: Node, new: Node, own: Survival, path: str) -> None:
            for name, node in old.names.after_cut(own).items():
                copy(node, new, name, f"{path}/{os.fsdecode(name)}")
            new.names.sync()

        fill(self.nodes[ROOT], tree.nodes[ROOT], survival, "")
        root, before = tree.nodes[ROOT], self.nodes[ROOT]
        root.mode, root.uid, root.gid = before.mode, before.uid, before.gid
        return tree

    def sync(self) -> None:
        """Have the disk keep all that programs see."""
        for node in self.nodes.values():
            node.contents.sync()
            node.names.sync()

    def _put(self, node: Node) -> Node:
        node.number = self._next
        self.nodes[self._next] = node
        self._next += 1
        return node

    def _enter(self, folder: Node, name: bytes, node: Node) -> None:
        folder.names.change({name: node})
        node.links += 1


def _named(folder: Node, name: bytes) -> Node:
    node = folder.names.entries.get(name)
    if node is None:
        raise OSError(errno.ENOENT, "no such name")
    return node


def _attributes(node: Node) -> bytes:
    return wire.ATTRIBUTES_OUT.pack(SECONDS_VALID, 0, 0) + node.attributes()
