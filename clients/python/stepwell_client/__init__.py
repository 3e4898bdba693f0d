"""Client and agent library for Stepwell: start and watch runs, or serve steps as a worker."""
