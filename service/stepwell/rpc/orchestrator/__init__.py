"""The Orchestrator service: how clients start, watch, steer and read runs. One module for each theme."""

from stepwell.rpc.orchestrator.servicer import NAME, make_service

__all__ = ["NAME", "make_service"]
