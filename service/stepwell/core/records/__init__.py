"""Records, states, events, errors and limits: values without rules of the loop."""
