"""Other projects, doing the bench's work with their own clients, in an environment of their own."""
