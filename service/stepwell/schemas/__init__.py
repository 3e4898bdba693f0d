"""Checks of questions and answers against JSON schemas, in bounded time."""

from stepwell.schemas.checks import answer_violations, question_violations

__all__ = ["answer_violations", "question_violations"]
