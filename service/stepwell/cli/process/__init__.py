"""Processes that a command runs until a signal: servers, a worker beside one, a browser."""
