"""A fresh interpreter imports nothing that it was not asked for."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from ast import literal_eval


def fresh(program: str) -> str:
    """Run a program in an interpreter of its own and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_opening_a_store_imports_no_other_driver() -> None:
    said = fresh(
        """
        import asyncio, sys
        from stepwell.runtime import SystemRuntime
        from stepwell.store.opener import open_store

        async def main():
            await (await open_store("memory://", runtime=SystemRuntime())).close()

        asyncio.run(main())
        strangers = {"sqlalchemy", "alembic", "asyncpg", "redis", "grpc"}
        ours = {name for name in sys.modules if name.startswith("stepwell_drivers.")}
        print(sorted(strangers & set(sys.modules)), "stepwell_drivers.memory" in ours)
        print(sorted(name for name in ours if name.count(".") == 1))
        """
    )
    first, second = said.splitlines()
    assert first == "[] True"
    assert not {"stepwell_drivers.sql", "stepwell_drivers.redis", "stepwell_drivers.remote"} & set(
        literal_eval(second)
    )


def test_client_works_without_pydantic() -> None:
    fresh(
        """
        import sys
        sys.modules["pydantic"] = None
        import stepwell_client, stepwell_client.execution
        assert stepwell_client.decode(stepwell_client.encode({"a": 1})) == {"a": 1}
        """
    )
