"""Servers that have bad days; their failing must be told clearly, and without passwords."""

from tests.support.backends.fixtures import backends

__all__ = ["backends"]
