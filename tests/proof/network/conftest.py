"""Servers of the process, ended with the session."""

from tests.backends.fixtures import backends

__all__ = ["backends"]
