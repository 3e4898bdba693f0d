"""Draws the reference of the command line from its own help; called by scripts/diagrams.py."""

from __future__ import annotations

from typing import Any

import typer.main

from stepwell.cli.app import COMMANDS, app

SERVER = ("--target", "--token-file", "--tls-ca", "--tls-cert", "--tls-key", "--tls-name")
SERVER_OPTIONS = frozenset({*SERVER, "--insecure-allow-remote"})
"""The options that find a server; they are the same in every command that calls one."""


def cell(text: str) -> str:
    """Return a text as a cell of a table holds it."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def table(head: str, records: list[tuple[str, str]]) -> str:
    """Return names and what they are as a table."""
    lines = [f"| {head} | what it is |", "| --- | --- |"]
    lines += [f"| `{name.replace('|', chr(92) + '|')}` | {cell(what)} |" for name, what in records]
    return "\n".join(lines) + "\n"


def command_section(name: str, command: Any, context: Any) -> str:
    """Return the section of a command: its help, its usage, its arguments and its options."""
    usage = " ".join([f"stepwell {name}", *command.collect_usage_pieces(context)])
    text, _, example = (command.help or "").partition("Example: ")
    example = example or (command.epilog or "").removeprefix("Example: ")
    parts = [f"## {name}\n", f"{text.strip()}\n", f"```text\n{usage}\n{example}\n```\n"]
    given = {"argument": list[tuple[str, str]](), "option": list[tuple[str, str]]()}
    calls = any("--target" in one.opts for one in command.params)
    for one in command.params:
        record = one.get_help_record(context)
        if record and not (calls and SERVER_OPTIONS & set(one.opts)):
            given[one.param_type_name].append(record)
    parts += [table(kind, records) for kind, records in given.items() if records]
    if calls:
        parts.append("Besides, the [options that find the server](#the-server).\n")
    return "\n".join(parts)


def commands() -> str:
    """Draw all commands, and once the options that find a server."""
    group: Any = typer.main.get_command(app)
    context = group.make_context("stepwell", ["ls"], resilient_parsing=True)
    made = {name: group.get_command(context, name) for name in COMMANDS}
    found = [one for one in made["ls"].params if SERVER_OPTIONS & set(one.opts)]
    server = table("option", [one.get_help_record(context) for one in found])
    sections = [command_section(name, command, context) for name, command in made.items()]
    return "\n".join([*sections, "## The server\n", server])
