"""The SQL store: one store over two databases, `sqlite:///PATH` and `postgresql://…`.

All SQL is plain functions over a SQLAlchemy connection (`commits`, `writes`, `reads`, `pages`,
`claims`), and `dialect` is where the databases differ. How each is connected to and run, and what its
errors mean, stands in `sqlite` and `postgres`.
"""
