"""The Worker service: how agents lease steps and report their outcomes."""
