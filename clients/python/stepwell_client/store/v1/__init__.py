"""Messages and stubs of the `stepwell.store.v1` protocol, generated from proto/: never edited."""
