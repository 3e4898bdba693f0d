"""`memory://`: the reference model, which keeps everything in dictionaries and nothing on disk.

`memory://` opens a new empty store each time. `memory://NAME` is one store, shared by all who open
that name in this process. It lives until the last of them closes it, so that an executor can be
stopped and restarted over the same rows.
"""

from stepwell_drivers.memory.opening import open_store

__all__ = ["open_store"]
