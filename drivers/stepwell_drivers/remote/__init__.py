"""`grpc://`: the store of another process, by its Store service (`stepwell store --driver URL`).

    grpcs://HOST:PORT                    a port, by TLS
    grpc://HOST:PORT                     a port without TLS, on this machine
    grpc:///run/stepwell/store.sock      no host: the path of a Unix socket, always absolute

Behind a `?` may stand `token_file=PATH` (otherwise the token comes from `STEPWELL_STORE_TOKEN` or,
on this machine, from the file that a server of the same user mints), `timeout_ms=N` (how long one
call may take) and `insecure_allow_remote=true` (call another machine also without TLS or without a
token). `grpcs` also takes `tls_ca=PATH`, `tls_cert=PATH`, `tls_key=PATH` and `tls_name=NAME`, or
else `STEPWELL_TLS_CA` and so on. The files are read again when they have changed.
"""

from stepwell_drivers.remote.opening import open_store

__all__ = ["open_store"]
