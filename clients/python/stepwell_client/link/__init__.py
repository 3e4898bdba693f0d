"""The connection to a server: its address, its errors and retries, and the clock."""
