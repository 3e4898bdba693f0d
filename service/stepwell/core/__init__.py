"""The core: the state of a run and its transitions, without I/O, clock or randomness."""
