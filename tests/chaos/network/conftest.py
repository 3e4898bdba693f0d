"""Servers of the process, ended with the session."""

from tests.support.backends.fixtures import backends

__all__ = ["backends"]
