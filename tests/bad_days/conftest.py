"""Servers that have bad days; their failing must be told clearly, and without passwords."""

from tests.backends.fixtures import backends

__all__ = ["backends"]
