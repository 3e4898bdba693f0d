"""The subject of a commit names the part and begins with a verb."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.docs.pages import TOP

SINCE = "dd50655663f5"
SUBJECT = re.compile(
    r"[A-Za-z][\w/., *-]*: (?!(?:The|A|An|Each|It|No)\b)[A-Z][a-z]+,? .*|Revert .*"
)


def test_subject_of_a_commit_names_the_part_and_begins_with_a_verb() -> None:
    asked = ["git", "log", "--no-merges", "--format=%s", f"{SINCE}..HEAD"]
    try:
        log = subprocess.run(asked, cwd=TOP, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"no git here, or its history doesn't reach {SINCE}")

    assert [subject for subject in log.splitlines() if not SUBJECT.fullmatch(subject)] == []
