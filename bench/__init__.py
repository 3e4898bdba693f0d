"""Speed, measured: a real server, a real worker and a real client, each in its own process."""
