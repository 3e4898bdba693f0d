"""The commands of docs/console.md work as they stand, but for the ports."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from functools import partial

from stepwell.config import ConsoleSettings
from tests.docs.pages import TOP, block
from tests.docs.shell import Shell, stepwell_commands
from tests.support.backends.required import missing

PAGE = TOP / "docs" / "console.md"


_block = partial(block, PAGE)


def _console(shell: Shell) -> str:
    """Start the server as the page says, on a free port; returns the console's address."""
    (serve,) = stepwell_commands(_block("sh", "stepwell serve"))
    server = shell.serve(f"{serve} --console-port 0")
    found = re.search(r"console +(http://\S+);", shell.said(server))
    assert found is not None
    return found[1]


def _by_curl(shell: Shell, address: str, text: str) -> str:
    if shutil.which("curl") is None:
        missing("curl", "there is no curl")
    text = text.replace("http://127.0.0.1:7880", address)
    return text.replace("~/.local/state/stepwell/token", str(shell.token_file))


def test_console_opens_by_an_address_with_a_code(shell: Shell) -> None:
    address = _console(shell)
    (command,) = stepwell_commands(_block("sh", "stepwell console\n"))
    shown = shell.run(f"{command} --no-open")
    assert shown.returncode == 0, shown.stderr
    assert re.search(rf"{address}/#code=[0-9a-f]{{32}}\n$", shown.stdout)


def test_curl_calls_by_json_and_reads_a_stream(shell: Shell) -> None:
    address = _console(shell)
    with shell.client() as client:
        run_id = client.start("shown by curl").id
    listing = _by_curl(shell, address, _block("sh", "ListRuns"))
    listed = shell.run(shlex.join(["sh", "-c", listing]))
    assert [one["spec"]["runId"] for one in json.loads(listed.stdout)["runs"]] == [run_id]

    (shell.folder / "frames.py").write_text(_block("python", "# frames.py"))
    stream = _by_curl(shell, address, _block("sh", "WatchRuns"))
    token = listing.splitlines()[0]
    following = shell.start(shlex.join(["sh", "-c", f"{token}\n{stream}"]))
    shell.until(lambda: '"progress"' in shell.said(following), following)
    with shell.client() as client:
        later = client.start("while curl follows").id
    shell.until(lambda: later in shell.said(following), following)
    for line in shell.said(following).splitlines():
        assert json.loads(line)


def test_settings_of_the_page_are_those_that_there_are() -> None:
    named = set(re.findall(r"`console\.(\w+)`", PAGE.read_text(encoding="utf-8")))
    # `console.key` is the file that they name.
    assert named == ConsoleSettings.model_fields.keys() | {"key"}
