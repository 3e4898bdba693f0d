"""Application: what the RPC edge and the embedded form both do, records in and records out."""
