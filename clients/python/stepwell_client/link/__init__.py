"""The connection to a server: its address, its errors, when to try again; and the clock."""
