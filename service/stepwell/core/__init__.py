"""The core: what a run is and how it moves, with no I/O, no clock and no randomness in it."""
