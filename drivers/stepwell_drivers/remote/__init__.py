"""`grpc://`: the store of another process, by its Store service (`stepwell store --driver URL`).

    grpc://HOST:PORT                     a port; only on this machine, until TLS comes
    grpc:///run/stepwell/store.sock      no host: the path of a Unix socket, always absolute

Behind a `?` may stand `token_file=PATH` (else the token comes from `STEPWELL_STORE_TOKEN`, else from the
file that a server of the same user mints), `timeout_ms=N` (how long one call may take) and
`insecure_allow_remote=true` (let token and rows travel to another machine in clear text).
"""

from stepwell_drivers.remote.opening import open_store

__all__ = ["open_store"]
