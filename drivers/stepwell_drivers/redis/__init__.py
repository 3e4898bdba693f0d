"""`redis://`, `rediss://`, `redis+cluster://`, `rediss+cluster://`: Redis 7 and Valkey 8 or newer.

Rows lie in numbered partitions, each under one hash tag. One script call commits a run's rows, its
events, its timers and its ready steps. No Redis module is needed, and nothing relies on the expiry
of keys. The durability of an acknowledgement is read from the servers' settings at start: see
`server_settings.py`.
"""

from stepwell_drivers.redis.entry import open_store

__all__ = ["open_store"]
