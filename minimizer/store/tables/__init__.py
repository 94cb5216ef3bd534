"""The tables, the database connection and migrations, bounds on stored data, and shared compressed blobs."""
