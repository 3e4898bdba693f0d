"""The protocol between replicas and a store served on its own: `store.v1` has its messages and stubs."""
