"""What all tests share: the list of covered invariants at the end of a run."""

from __future__ import annotations

from stepwell.testing.conformance.report import pytest_terminal_summary

__all__ = ["pytest_terminal_summary"]
