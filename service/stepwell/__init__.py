"""Stepwell: durable agent loops, every transition committed before anything acts on it."""
