"""The protocol between replicas and a separately served store: `store.v1` has its messages and stubs."""
