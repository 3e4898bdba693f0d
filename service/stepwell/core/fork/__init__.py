"""Forks: a run made from a version of another one."""
