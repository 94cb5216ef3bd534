"""The Alembic scripts: how the database comes from one version's tables to the next one's.

They ship in the wheel and are run by `minimizer.store.tables.migrate`. A new one is generated against PostgreSQL::

    MINIMIZER_DATABASE_URL=postgresql://... alembic -c migrations/alembic.ini revision --autogenerate -m "Add a column"
"""
