"""The journal of a step: calls whose results are kept, and waits."""
