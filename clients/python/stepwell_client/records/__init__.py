"""Frozen records of what the service returns, and the values that callers and agents pass."""
