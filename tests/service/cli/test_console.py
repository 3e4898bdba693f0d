"""`serve --console` and `console` as processes: what they print, and what a browser is given."""

from __future__ import annotations

import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from stepwell.cli.certificates import make
from stepwell.console.serving import PROOF_HEADER
from tests.service.cli.world import LIVES_S, SESSION_S, WAIT_S, Terminal, end, post, read_until

BROWSER = """#!/bin/sh
# Opens the file as a browser does: it follows the address that it leads to.
file="${1#file://}"
stat -c %a "$file" > "$0.mode"
sed -n 's/.*href="\\([^"]*\\)".*/\\1/p' "$file" > "$0.part"
mv "$0.part" "$0.link"
"""


@pytest.fixture
def browser(tmp_path: Path) -> Path:
    made = tmp_path / "browser"
    made.write_text(BROWSER)
    made.chmod(0o700)
    return made


class Served:
    """A server with a console, as processes see it."""

    def __init__(
        self, terminal: Terminal, server: subprocess.Popen[str], address: str, url: str
    ) -> None:
        self.terminal = terminal
        self.server = server
        self.address = address
        self.url = url


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    terminal = Terminal(tmp_path_factory.mktemp("served"))
    terminal.lives_s = SESSION_S
    server = terminal.spawn(
        *("serve", "--port", "0", "--store", "memory://", "--console", "--console-port", "0")
    )
    address = read_until(server.stdout, r"listens on (\S+)")[1]
    url = read_until(server.stdout, r"console  (http://127.0.0.1:\d+); log in by: stepwell console")
    terminal.lives_s = LIVES_S
    yield Served(terminal, server, address, url[1])
    answer = end(server)
    assert answer.code == 0
    assert "Traceback" not in answer.err


def test_console_gives_the_browser_a_closed_file_with_a_code(served: Served, browser: Path) -> None:
    link = browser.with_name("browser.link")
    command = served.terminal.spawn("console", "--target", served.address, BROWSER=f"{browser} %s")
    read_until(command.stdout, f"{served.url} opens in the browser")
    url, _, code = link.read_text().strip().partition("/#code=")
    assert url == served.url
    assert browser.with_name("browser.mode").read_text().strip() == "600"
    session = post(url, "/session", code=code)
    assert session["subject"] == "local"
    command.communicate(timeout=WAIT_S)
    assert command.returncode == 0
    info = post(url, "/stepwell.v1.Orchestrator/GetServerInfo", session["key"])
    assert info["consoleAddress"] == url


def test_console_by_tls_is_known_by_the_authority_of_the_environment(tmp_path: Path) -> None:
    made = make(tmp_path / "certs", ["127.0.0.1"], days=1, now=datetime.now(UTC))
    pair = {"TLS_CERT": str(made.server.certificate), "TLS_KEY": str(made.server.key)}
    both = {
        f"STEPWELL_{group}__{key}": path
        for group in ("GRPC", "CONSOLE")
        for key, path in pair.items()
    }
    terminal = Terminal(tmp_path)
    server = terminal.spawn(
        *("serve", "--port", "0", "--store", "memory://", "--console", "--console-port", "0"),
        **both,
    )
    address = read_until(server.stdout, r"listens on (\S+)")[1]
    url = read_until(server.stdout, r"console  (https://127.0.0.1:\d+)")[1]
    answer = terminal.apart(
        *("console", "--target", address, "--no-open"),
        STEPWELL_TLS_CA=str(made.authority.certificate),
    )
    assert (answer.code, answer.err) == (0, "")
    assert f"once: {url}/#code=" in answer.out
    assert end(server).code == 0


def test_console_without_a_browser_prints_the_address(served: Served) -> None:
    answer = served.terminal.apart("console", "--target", served.address, "--no-open")
    assert (answer.code, answer.err) == (0, "")
    url, _, code = answer.out.split()[-1].partition("/#code=")
    assert url == served.url
    assert post(url, "/session", code=code)["tenant"] == "default"


def test_console_of_its_own_process_calls_the_server(served: Served) -> None:
    command = served.terminal.spawn(
        *("console", "--target", served.address, "--port", "0", "--no-open")
    )
    url = read_until(command.stdout, r"is at (http://127.0.0.1:\d+)")[1]
    assert url != served.url
    code = read_until(command.stdout, r"once: \S+/#code=(\S+)")[1]
    session = post(url, "/session", code=code)
    info = post(url, "/stepwell.v1.Orchestrator/GetServerInfo", session["key"])
    assert info["consoleAddress"] == served.url
    answer = end(command, signal.SIGINT)
    assert answer.code == 0
    assert "stopped" in answer.out
    assert "Traceback" not in answer.err


def test_console_sends_no_token_to_a_port_that_is_not_the_servers(tmp_path: Path) -> None:
    # As where the server is another machine's, reached by a tunnel, and the port of this one somebody else's.
    asked: list[tuple[str, str | None]] = []
    codes = [200, 404]

    class Stranger(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            asked.append((self.command, self.headers["Authorization"]))
            self.send_response(codes[len(asked) - 1])
            self.send_header(PROOF_HEADER, "0" * 64)
            self.end_headers()

        def do_POST(self) -> None:
            self.do_HEAD()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Say nothing."""

    stranger = ThreadingHTTPServer(("127.0.0.1", 0), Stranger)
    threading.Thread(target=stranger.serve_forever, daemon=True).start()
    terminal = Terminal(tmp_path)
    program = f"""
import asyncio
from stepwell.config import GrpcSettings, Settings, StoreSettings
from stepwell.rpc.server import Server

async def main():
    settings = Settings(store=StoreSettings(url="memory://"), grpc=GrpcSettings(port=0))
    server = Server(settings)
    server.console_address = "http://127.0.0.1:{stranger.server_port}"
    async with server:
        print(server.addresses[0], flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""
    server = subprocess.Popen(
        [sys.executable, "-c", program], env=terminal.variables, stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        target = server.stdout.readline().strip()
        for _ in codes:
            command = terminal.spawn("console", "--target", target, "--no-open")
            # It serves the page itself.
            read_until(command.stdout, f"the console of {target} is at http://127.0.0.1:")
            assert end(command, signal.SIGINT).code == 0
    finally:
        server.kill()
        server.wait()
        stranger.shutdown()
        stranger.server_close()
        assert server.stdout is not None
        server.stdout.close()
    assert asked == [("HEAD", None)] * len(codes)


def test_bytes_that_are_no_http_are_a_line_of_the_log(served: Served) -> None:
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"no HTTP at all\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 400")
    read_until(served.server.stderr, r"\[warning +\] Invalid HTTP request")


def test_console_of_no_server_says_so(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    token = tmp_path / "token"
    token.write_text("0123456789abcdef")
    token.chmod(stat.S_IRUSR | stat.S_IWUSR)
    answer = terminal.apart(
        *("console", "--target", f"unix:{tmp_path}/none.sock", "--token-file", str(token))
    )
    assert answer.code == 5
    assert "none.sock" in answer.err
