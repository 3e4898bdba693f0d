"""`memory://`: the reference model. Everything in dictionaries, nothing on disk, no excuse.

`memory://` opens a new empty store each time. `memory://NAME` is one store for all who open that name
in this process; it lives until the last of them closes it, so that an executor can be stopped and
started over the same rows.
"""

from stepwell_drivers.memory.opening import open_store

__all__ = ["open_store"]
