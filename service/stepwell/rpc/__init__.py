"""The gRPC edge: servicers, authentication, validation of requests, errors to statuses."""
