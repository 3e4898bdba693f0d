"""Workers: serve the steps of an agent over a stream, and connect again when it breaks."""
