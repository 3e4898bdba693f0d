"""`redis://`, `rediss://`, `redis+cluster://`, `rediss+cluster://`: Redis 7 and Valkey 8 or newer.

Rows lie in numbered partitions, each under one hash tag; a script commits a run's rows, its events and
what is due of it in one go. Nothing needs a module, and nothing rests on the expiry of keys. What an
acknowledgement survives is read from the servers at start: see `facts.py`.
"""

from stepwell_drivers.redis.entry import open_store

__all__ = ["open_store"]
