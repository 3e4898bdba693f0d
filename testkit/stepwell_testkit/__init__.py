"""What tests are made of: a runtime moved by hand, the store conformance suite, the simulator."""
