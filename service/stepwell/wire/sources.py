"""Generated functions: their source is written at import, and each is compiled when it is first called.

A server knows some 300 of them. To compile all takes a tenth of the time of its start, and it needs few at once.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any


class Functions(dict[str, Callable[..., Any]]):
    """Functions by name. They call one another by their names, and see the globals in `space`."""

    def __init__(
        self, file: str, sources: Mapping[str, Sequence[str]], space: dict[str, Any]
    ) -> None:
        """`sources` are the lines of each function, and of what it alone needs; `file` is for tracebacks."""
        super().__init__()
        self._file = file
        self._space = space
        self._sources: dict[str, tuple[int, Sequence[str]]] = {}
        lines: list[str] = []
        for name, source in sources.items():
            self._sources[name] = (len(lines), source)
            space[name] = partial(self._call, name)
            lines += [f"{line}\n" for line in source]
        # With its lines known, a traceback through generated code can be read.
        linecache.cache[file] = (sum(map(len, lines)), None, lines, file)

    def __missing__(self, name: str) -> Callable[..., Any]:
        """Compile a function: it stands in the globals from now on, where the others find it."""
        above, source = self._sources[name]
        text = "\n" * above + "\n".join(source) + "\n"
        exec(compile(text, self._file, "exec"), self._space)  # noqa: S102  # our own text, made above
        self[name] = self._space[name]
        return self[name]

    def _call(self, name: str, *arguments: Any) -> Any:
        """Stand for a function in the globals until it is compiled."""
        return self[name](*arguments)
