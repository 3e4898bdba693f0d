"""The Orchestrator service: how clients start, watch, steer and read runs. One module a theme."""

from stepwell.rpc.orchestrator.servicer import make_service

__all__ = ["make_service"]
