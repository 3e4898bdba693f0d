"""Receipts: an outcome that is sent again after its commit gets its first answer again.

A worker that missed the answer sends its outcome again, although its lease has ended because the
outcome was accepted. The store keeps the receipt with the outcome: a digest of token and outcome,
and the answer if the outcome was rejected. Another outcome of the same lease, or the same outcome
with another token, has another digest: its lease is lost.
"""

from __future__ import annotations

import hashlib
import hmac

import msgspec

from stepwell.core.loop.occurrences import Delivery
from stepwell.core.loop.transition import Reply, ReplyStatus

_DIGEST_CHARS = 32
_encode = msgspec.msgpack.Encoder().encode
_reply = msgspec.json.Decoder(Reply).decode


def receipt_of(delivery: Delivery, reply: Reply) -> str:
    """Return the receipt of a delivery that ended its execution, with its answer."""
    answer = b"" if reply.status is ReplyStatus.ACCEPTED else msgspec.json.encode(reply)
    return _digest(delivery) + answer.decode()


def first_answer(delivery: Delivery, receipt: str) -> Reply | None:
    """Return the first answer to this delivery, or None if the receipt is another delivery's."""
    if not hmac.compare_digest(receipt[:_DIGEST_CHARS].encode(), _digest(delivery).encode()):
        return None
    answer = receipt[_DIGEST_CHARS:]
    return _reply(answer) if answer else Reply()


def _digest(delivery: Delivery) -> str:
    # The token is among the fields. Equal messages make equal records with equal bytes. Processors
    # have instructions for SHA-256, which takes a third of the time of Python's BLAKE2 for large
    # results.
    return hashlib.sha256(_encode(delivery)).hexdigest()[:_DIGEST_CHARS]
