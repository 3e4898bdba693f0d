"""Schema migrations, shipped with the driver and run by Alembic when a store is opened."""
