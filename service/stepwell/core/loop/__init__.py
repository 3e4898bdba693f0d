"""The loop: advance, its table of moves, and the rules."""
