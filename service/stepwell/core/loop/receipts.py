"""Receipts: an outcome that is sent again after its commit gets its first answer again.

A worker that never had the answer sends its outcome again, when its lease is over because the outcome was
accepted. The receipt stands beside the outcome in the store: a digest of token and outcome, and the answer where
the outcome was rejected. Another outcome of the same lease, or the same one under another token, has another
digest: its lease is lost.
"""

from __future__ import annotations

import hashlib
import hmac

import msgspec

from stepwell.core.loop.signals import Delivery
from stepwell.core.loop.transition import Reply, ReplyStatus

_DIGEST_CHARS = 32
_encode = msgspec.msgpack.Encoder().encode
_reply = msgspec.json.Decoder(Reply).decode


def receipt_of(delivery: Delivery, reply: Reply) -> str:
    """Return the receipt of a delivery that ended its execution, with its answer."""
    answer = b"" if reply.status is ReplyStatus.ACCEPTED else msgspec.json.encode(reply)
    return _digest(delivery) + answer.decode()


def first_answer(delivery: Delivery, receipt: str) -> Reply | None:
    """Return the answer that this delivery had before; None: the receipt is another delivery's."""
    if not hmac.compare_digest(receipt[:_DIGEST_CHARS].encode(), _digest(delivery).encode()):
        return None
    answer = receipt[_DIGEST_CHARS:]
    return _reply(answer) if answer else Reply()


def _digest(delivery: Delivery) -> str:
    # The token is among the fields. The same message makes an equal record with equal bytes. Processors have
    # instructions for SHA-256: a large result takes a third of the time that Python's BLAKE2 does.
    return hashlib.sha256(_encode(delivery)).hexdigest()[:_DIGEST_CHARS]
