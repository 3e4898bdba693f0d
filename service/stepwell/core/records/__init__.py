"""Records, states, events, errors and limits: values that hold nothing of the loop."""
