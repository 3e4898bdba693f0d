"""Real servers for tests and benchmarks, from wheels, on private sockets and free ports.

    from tests.support.backends.postgres import Postgres
    from tests.support.backends.redis import Redis

    with Postgres(18, fsync=True, password=None, settings={...}) as server:
        name = server.new_database()
        server.url(name)                 # postgresql://stepwell@127.0.0.1:PORT/NAME
        server.url(name, socket=True)    # over the private socket
        server.restart(kill=True)        # SIGKILL, and up again at the same place with its data
        server.freeze(); server.thaw()   # SIGSTOP, SIGCONT
        with server.standby() as standby: ...   # a hot standby, read only

    with Redis("valkey", appendfsync="always", maxmemory_policy="noeviction") as server: ...

Shared by a test process, one of each kind, up again if a test left it down, stopped at its end
(one's own server instead if `STEPWELL_TEST_POSTGRES_URL` or `STEPWELL_TEST_REDIS_URL` names it):

    from tests.support.backends.shared import postgres_server, redis_server, redis_cluster
    postgres_server(18, fsync=True).new_database()
    redis_server("redis", appendfsync="always").flush()

Also: `cluster.RedisCluster`, `pgbouncer.PgBouncer`, `proxy.Proxy` (faults between client and server),
and `fixtures` of a Postgres with a password. What a test shares lives in memory where there is room; for figures make
a server of your own.

All calls are plain ones that block for as long as they take (`asyncio.to_thread` where a loop must
go on). Nothing outlives the process that started it, however that ends. A server proves that it is
the one that answers before `start` returns.
"""
