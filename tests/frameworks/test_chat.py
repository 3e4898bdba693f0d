"""The chat from end to end, with kills, in a browser and without one; its parts, and what the documents show of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.console import Console

from examples.chat import agent
from examples.chat.chromium import find_chromium
from examples.chat.demo import SAID, Demo
from examples.chat.pages import with_tokens
from tests.docs.examples.play import alive, play
from tests.docs.pages import TOP, blocks
from tests.support.backends.required import missing
from tests.unit.house.source import Module
from tests.unit.house.test_weight import code_lines

CHAT = TOP / "examples" / "chat"
LINES_MAX = 120


@pytest.mark.timeout(600)
@pytest.mark.parametrize("by", ["http", "chromium"])
def test_talk_survives_the_kill_of_server_web_server_and_worker(by: str) -> None:
    if by == "chromium" and find_chromium() is None:
        missing("chromium", "there is no Chromium on the PATH")

    done = play("chat", "--by", by)
    said = done.stdout

    assert done.returncode == 0, said
    killed = re.findall(r"kill -9 \d+: the (.+) is dead, in the middle of an answer", said)
    assert killed == ["server", "web server", "worker"], said
    pids = {int(pid) for pid in re.findall(r"pid (\d+)", said)}
    assert len(pids) == 6
    assert not [pid for pid in pids if alive(pid)]
    assert f"messages, each once, in order: {list(SAID)}" in said
    assert "orders that were placed: ['three lamps']" in said
    assert ("the page is open in" in said) == (by == "chromium")


def test_demo_notes_what_did_not_survive(tmp_path: Path) -> None:
    demo = Demo(tmp_path, Console(quiet=True), None)

    demo.check("orders that were placed", ["three lamps"], ["three lamps"])
    assert demo.broken == []
    demo.check("orders that were placed", ["three lamps", "three lamps"], ["three lamps"])
    assert demo.broken == [
        "orders that were placed: ['three lamps', 'three lamps'], not ['three lamps']"
    ]


def test_order_is_placed_once_for_each_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "ORDERS", tmp_path / "orders.txt")

    for key in ("run/1", "run/1", "run/11"):
        assert agent.place_order(key, "three lamps") == "I have ordered three lamps."

    lines = (tmp_path / "orders.txt").read_text(encoding="utf-8").splitlines()
    assert lines == ["run/1 three lamps", "run/11 three lamps"]


def test_tokens_that_come_again_are_shown_once() -> None:
    first = '{"at": 0, "text": "It "}\n{"at": 3, "text": "is "}\n'

    assert with_tokens("", first) == "It is "
    assert with_tokens("It is ", first) == "It is "
    assert with_tokens("It is so ", '{"at": 3, "text": "was "}\n') == "It was "


def test_example_is_as_short_as_its_documents_say() -> None:
    files = [(CHAT / name).read_text(encoding="utf-8") for name in ("agent.py", "app.py")]
    lines = sum(code_lines(Module("examples/chat", text)) for text in files)

    assert lines <= LINES_MAX
    assert len((CHAT / "page.html").read_text(encoding="utf-8").splitlines()) <= LINES_MAX


def test_page_loads_nothing_from_elsewhere() -> None:
    page = (CHAT / "page.html").read_text(encoding="utf-8")

    assert not re.findall(r"(?:src|href|@import|url\()", page)
    assert "//" not in re.sub(r"^\s*//.*$|; // .*$", "", page, flags=re.MULTILINE)


def test_what_the_page_about_chats_shows_stands_in_the_example() -> None:
    texts = [path.read_text(encoding="utf-8") for path in CHAT.iterdir() if path.is_file()]
    page = TOP / "docs" / "threads.md"
    shown = [*blocks(page, "py"), *blocks(page, "js")]

    assert len(shown) >= 3
    for block in shown:
        assert any(block.text in text for text in texts), block.text
