"""The engine: runs the loop over a store, dispatches steps and takes their outcomes."""
