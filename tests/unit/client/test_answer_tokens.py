"""Tokens of questions: what they name, and what is none."""

from __future__ import annotations

import base64

import pytest

from stepwell_client.answer_tokens import (
    TOKEN_CHARS_MAX,
    TOKEN_PREFIX,
    answer_place,
    new_answer_token,
    sha256_of,
)
from stepwell_client.internal import Runtime

RUN = "0b5f0f6c-3f0e-4b8e-9d0b-1f1a8f6f2a77"


def coded(raw: bytes) -> str:
    return TOKEN_PREFIX + base64.urlsafe_b64encode(raw).decode().rstrip("=")


def test_a_token_names_its_tenant_its_run_and_its_hash() -> None:
    token = new_answer_token("tenant-a", RUN, Runtime().new_id)
    place = answer_place(token)
    assert place == ("tenant-a", RUN, sha256_of(token))
    assert len(sha256_of(token)) == 64


def test_the_longest_names_fit_a_token() -> None:
    token = new_answer_token("t" * 128, "r" * 36, Runtime().new_id)
    assert len(token) <= TOKEN_CHARS_MAX
    assert answer_place(token) is not None


def test_two_tokens_of_a_run_are_different() -> None:
    assert len({new_answer_token("t", RUN, Runtime().new_id) for _ in range(100)}) == 100


@pytest.mark.parametrize(
    "token",
    [
        "",
        "stw_0123456789abcdef",
        TOKEN_PREFIX,
        f"{TOKEN_PREFIX}é",
        f"{TOKEN_PREFIX}AAA",
        coded(b"tenant\0run\0short"),
        coded(b"tenant\0run\0" + b"x" * 21),
        coded(b"\0run\0" + b"x" * 20),
        coded(b"tenant\0\0" + b"x" * 20),
        coded(b"ten{ant}\0run\0" + b"x" * 20),
        coded(b"tenant\0r\nn\0" + b"x" * 20),
        coded("tenänt".encode() + b"\0run\0" + b"x" * 20),
        coded(b"tenant"),
        TOKEN_PREFIX + "A" * TOKEN_CHARS_MAX,
    ],
)
def test_other_texts_are_no_tokens(token: str) -> None:
    assert answer_place(token) is None
