# What the bench uses of matplotlib, whose own types are unknown in places.
