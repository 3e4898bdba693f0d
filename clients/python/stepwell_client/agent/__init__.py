"""Agents: the functions of a user, their contexts, and how one step of theirs runs."""
