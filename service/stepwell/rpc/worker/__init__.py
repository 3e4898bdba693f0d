"""The Worker service: how agents lease steps and report their outcomes."""

from stepwell.rpc.worker.servicer import NAME, make_service

__all__ = ["NAME", "make_service"]
