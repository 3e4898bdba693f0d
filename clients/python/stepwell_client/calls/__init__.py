"""Calls of the Orchestrator service: asynchronous, and blocking."""
