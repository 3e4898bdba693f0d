"""Workers: serve the steps of an agent over a stream, and reconnect when it breaks."""
