"""Values that the database gives to a new row by itself."""

from __future__ import annotations

from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class Transaction(FunctionElement[int]):
    """The number of the transaction that writes, where there are several at once; else 0."""

    inherit_cache = True


@compiles(Transaction)
def _no_transaction(*_: object, **__: object) -> str:
    return "0"


@compiles(Transaction, "postgresql")
def _this_transaction(*_: object, **__: object) -> str:
    return "(pg_current_xact_id()::text::bigint)"
