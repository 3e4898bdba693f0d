"""Watches: events and logs from a position on, then live."""
