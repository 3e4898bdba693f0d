"""Test kit for Stepwell: `environment` for authors of agents, `conformance` for authors of store drivers.

`conformance` is the suite that every store driver passes. `environment` runs an agent's runs in a test's own
process. Both stand on three smaller modules: `faults` wraps a store in one that fails as stores do, `proxy` is a
store in front of a store, and `runtime` is a clock that a test moves by hand.
"""
