"""NUL in Postgres: what is written otherwise there comes back as it was."""

from __future__ import annotations

import itertools
import json
from functools import cache

from stepwell_drivers.sql import nul


@cache
def odd_texts() -> list[str]:
    pieces = ["", "\0", "\x01", "\x01\x01", "\x02", "\\u0000", "\\\\u0001", "a", "\\", '"', "😀"]
    return ["".join(three) for three in itertools.product(pieces, repeat=3)]


def test_a_text_with_nul_comes_back_and_equal_stays_equal() -> None:
    hidden = [nul.hide(one) for one in odd_texts()]
    assert [nul.show(one) for one in hidden] == odd_texts()
    assert all("\0" not in one for one in hidden)
    assert len(set(hidden)) == len(set(odd_texts()))


def test_json_with_nul_means_the_same_when_it_comes_back() -> None:
    for one in odd_texts():
        written = json.dumps({one: [one]})
        hidden = nul.hide_json(written)
        assert "\\u0000" not in hidden.replace("\\\\", "")
        # As JSONB writes it: what need not be escaped isn't.
        again = json.dumps(json.loads(hidden), ensure_ascii=False)
        assert json.loads(nul.show_json(again)) == {one: [one]}
