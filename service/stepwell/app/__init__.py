"""Application: operations that the RPC edge and the embedded form share, with records in and out."""
