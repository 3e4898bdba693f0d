"""The commands of docs/operating.md work as they stand."""

from __future__ import annotations

import re
import shlex
import signal
import sqlite3
from contextlib import closing
from functools import partial
from urllib.request import urlopen

import pytest

from stepwell.cli.app import COMMANDS
from stepwell.cli.exits import Exit
from stepwell_client import PermissionDenied, SyncClient, Task
from stepwell_client.v1 import types_pb2
from tests.docs.pages import TOP, block, blocks
from tests.docs.shell import Shell, stepwell_commands, stop

PAGE = TOP / "docs" / "operating.md"
TEXT = PAGE.read_text(encoding="utf-8")


_block = partial(block, PAGE)


def test_settings_in_a_file_a_token_of_ones_own_and_metrics(shell: Shell) -> None:
    (shell.folder / "stepwell.toml").write_text(_block("toml", "dashboard"), encoding="utf-8")
    made = shell.run(shlex.join(["sh", "-c", _block("sh", "dashboard.token")]))
    assert made.returncode == 0, made.stderr
    assert (shell.folder / "dashboard.token").stat().st_mode & 0o077 == 0
    server = shell.serve("stepwell serve --metrics-port 0")
    assert '"event": "serving"' in shell.said(server)
    with SyncClient(shell.target, token_file=shell.folder / "dashboard.token") as client:
        assert client.info().subject == "dashboard"
        assert list(client.runs()) == []
        with pytest.raises(PermissionDenied):
            client.start("not allowed")
    _see_metrics(shell.said(server))
    shell.environment["STEPWELL_GRPC__PORTS"] = "1"
    assert shell.run("stepwell serve").returncode == Exit.USAGE


def _see_metrics(said: str) -> None:
    url = re.search(r"http://\S+", said)
    assert url is not None
    with urlopen(url[0]) as page:
        shown = page.read().decode()
    named = set(re.findall(r"`(stepwell_\w+)`", TEXT))
    assert named
    assert {name for name in named if f"# TYPE {name}" not in shown} == set()


def test_a_store_in_a_process_of_its_own(shell: Shell) -> None:
    store, serve = stepwell_commands(_block("sh", "stepwell store"))
    del shell.environment["STEPWELL_GRPC__SOCKET"]
    shell.serve(store)
    server = shell.serve(shlex.join(["sh", "-c", f"exec {serve}"]))
    address = re.search(r"listens on (\S+)", shell.said(server))
    assert address is not None
    assert "POWER" in shell.said(server)
    with SyncClient(address[1], token_file=shell.token_file) as client:
        run = client.start("kept elsewhere", plan=[Task("one")])
        assert run.get().goal == "kept elsewhere"
    assert (shell.folder / "stepwell.db").is_file()


def test_tls_with_certificates_of_ones_own(shell: Shell) -> None:
    certs, serve = stepwell_commands(_block("sh", "stepwell certs"))
    (ls,) = stepwell_commands(_block("sh", "--target grpcs://"))
    assert shell.run(certs).returncode == Exit.DONE
    del shell.environment["STEPWELL_GRPC__SOCKET"]
    shell.environment["STEPWELL_GRPC__PORT"] = "0"
    server = shell.serve(serve)
    address = re.search(r"listens on (grpcs://0\.0\.0\.0):(\d+)", shell.said(server))
    assert address is not None
    ls = ls.replace(":7878", f":{address[2]}").replace(" token ", f" {shell.token_file} ")
    assert "tls      certs/server.pem" in shell.said(server)
    made = shell.run(ls)
    assert made.returncode == Exit.DONE, made.stderr
    # New files of the same authority: accepted by both ends.
    assert shell.run(certs).returncode == Exit.DONE
    assert shell.run(ls).returncode == Exit.DONE
    assert "in use for connections from now on" in shell.said(server)
    refused = shell.run(ls.partition(" --tls-cert")[0])
    assert (refused.returncode, "certificate" in refused.stderr) == (Exit.UNREACHABLE, True)


def test_a_schema_is_made_and_then_there_is_nothing_to_do(shell: Shell) -> None:
    make, check = stepwell_commands(_block("sh", "--check"))
    assert shell.run(check).returncode == Exit.FAILED
    assert shell.run(make).returncode == Exit.DONE
    assert "up to date" in shell.run(check).stdout


def test_the_printed_migrations_make_a_schema_that_is_up_to_date(shell: Shell) -> None:
    script = shell.run(shlex.join(["sh", "-c", _block("sh", "--sql")]))
    assert script.returncode == Exit.DONE, script.stderr
    with closing(sqlite3.connect(shell.folder / "stepwell.db")) as connection:
        connection.executescript((shell.folder / "stepwell.sql").read_text(encoding="utf-8"))
    _, check = stepwell_commands(_block("sh", "--check"))
    assert "up to date" in shell.run(check).stdout


def test_a_backup_of_a_running_server_is_a_store(shell: Shell) -> None:
    copy = re.search(r"sqlite3 '(?P<uri>[^']+)' \"(?P<sql>[^\"]+)\"", _block("sh", "VACUUM"))
    assert copy is not None
    server = shell.serve("stepwell serve --store sqlite:///stepwell.db")
    with shell.client() as client:
        run_id = client.start("kept", plan=[Task("one")]).id
        uri = copy["uri"].replace("file:", f"file:{shell.folder}/")
        sql = copy["sql"].replace("'", f"'{shell.folder}/", 1)
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            connection.execute(sql)
        client.run(run_id).cancel()
    assert stop(server, signal.SIGTERM) == 0
    shell.serve("stepwell serve --store sqlite:///backup.db")
    with shell.client() as client:
        assert client.run(run_id).get().status == types_pb2.RUN_STATUS_QUEUED


def test_exit_codes_and_commands_are_those_that_there_are() -> None:
    section = TEXT.partition("## Exit codes")[2].partition("## ")[0]
    assert [int(code) for code in re.findall(r"^\| (\d+) ", section, re.MULTILINE)] == list(Exit)
    for shown in blocks(PAGE, "sh"):
        for command in stepwell_commands(shown.text):
            assert command.split()[1] in COMMANDS
