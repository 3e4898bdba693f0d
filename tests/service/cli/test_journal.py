"""`stepwell journal`, and calls in `show`, against a real server and a real worker."""

from __future__ import annotations

import re

from tests.service.cli.world import Row, Terminal, start


def test_calls_are_listed_followed_and_shown(terminal: Terminal) -> None:
    run_id = start(terminal, {"id": "one", "type": "call"}, queue="default")
    followed = terminal("journal", run_id, "--follow")
    assert followed.code == 0
    line = r"\d\d:\d\d:\d\d  one#1  {}  done, 6 bytes.*\n"
    assert re.fullmatch(line.format(r"read/\w+#1") + line.format("book"), followed.out)
    terminal.plays(
        run_id,
        Row("journal {run} one --values", 0, '"PAGE"'),
        Row("journal {run} --execution task:one#1 --json", 0, '"key": "book"'),
        Row("journal {run} --execution task:one#2", 0, err="ctx.call"),
        Row("journal {run} nope", 2, err="no task 'nope'"),
        Row("show {run} one", 0, "  one#1  book  done, 6 bytes"),
        Row("retry {run} one --fresh", 1, err="error: "),
        Row("resolve {run} task:one#1 --call book --done", 1, err="error: "),
    )
