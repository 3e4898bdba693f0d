"""The works that the bench measures, one to a file."""
