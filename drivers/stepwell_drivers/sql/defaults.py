"""Default values that the database computes for a new row."""

from __future__ import annotations

from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class Transaction(FunctionElement[int]):
    """The number of the writing transaction in Postgres, which has several at once; 0 in SQLite."""

    inherit_cache = True


@compiles(Transaction)
def _no_transaction(*_: object, **__: object) -> str:
    return "0"


@compiles(Transaction, "postgresql")
def _this_transaction(*_: object, **__: object) -> str:
    return "(pg_current_xact_id()::text::bigint)"
