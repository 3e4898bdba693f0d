"""Test kit for Stepwell: `environment` for authors of agents, `conformance` for authors of store drivers.

`conformance` is the suite that every store driver passes. `environment` runs an agent in the test's
process. Three smaller modules: `faults` makes a store fail as real stores do, `proxy` is a store in
front of a store, and `runtime` is a clock that a test moves by hand.
"""
