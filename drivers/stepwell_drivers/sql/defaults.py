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


class RandomUuid(FunctionElement[str]):
    """A UUID that the database draws (version 4)."""

    inherit_cache = True


@compiles(RandomUuid)
def _drawn(*_: object, **__: object) -> str:
    first, *rest = [f"lower(hex(randomblob({size})))" for size in (4, 2, 2, 2, 6)]
    version = f"'4' || substr({rest[1]}, 2)"
    variant = f"substr('89ab', 1 + (random() & 3), 1) || substr({rest[2]}, 2)"
    return "(" + " || '-' || ".join((first, rest[0], version, variant, rest[3])) + ")"


@compiles(RandomUuid, "postgresql")
def _drawn_by_postgres(*_: object, **__: object) -> str:
    return "gen_random_uuid()"
