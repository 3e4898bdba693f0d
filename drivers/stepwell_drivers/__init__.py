"""Storage drivers, found by URL scheme through the `stepwell.drivers` entry points."""
