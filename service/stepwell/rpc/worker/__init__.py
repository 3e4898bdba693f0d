"""The Worker service: how agents lease steps and report their outcomes."""

from stepwell.rpc.worker.servicer import make_service

__all__ = ["make_service"]
