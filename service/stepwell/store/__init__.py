"""Stores: opened by URL, and migrated."""
