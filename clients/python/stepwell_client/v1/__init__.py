"""Messages and stubs of the `stepwell.v1` protocol, generated from proto/: never edited."""
