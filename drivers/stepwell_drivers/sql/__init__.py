"""The SQL store: one store over two databases, `sqlite:///PATH` and `postgresql://…`.

SQL statements are in plain functions over a connection (`writes`, `reads`, `pages`, `search`).
`dialect` has the differences between the databases. `sqlite` and `postgres` connect to each,
commit, claim, and interpret errors.
"""
