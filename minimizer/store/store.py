"""`Store`: all operations of web and worker on the database, each in the part that its thing belongs to."""

from __future__ import annotations

from sqlalchemy import text

from minimizer.store.access.audit import Audit
from minimizer.store.access.projects import Projects
from minimizer.store.access.sessions import Sessions
from minimizer.store.access.tokens import Tokens
from minimizer.store.access.users import Users
from minimizer.store.groups import Groups
from minimizer.store.jobs.jobs import Jobs
from minimizer.store.submissions import Submissions
from minimizer.store.tables.database import Database
from minimizer.store.webhooks import Webhooks
from minimizer.store.work.leases import Leases
from minimizer.store.work.messages import Messages
from minimizer.store.work.results import Results
from minimizer.store.work.workers import Workers


class Store:
    """The database, by its parts. May be shared between threads, but not across a fork."""

    def __init__(self, database: Database, max_queued_jobs: int) -> None:
        self._database = database
        self.submissions = Submissions(database, max_queued_jobs)
        self.jobs = Jobs(database)
        self.groups = Groups(database, max_queued_jobs)
        self.leases = Leases(database)
        self.results = Results(database)
        self.workers = Workers(database)
        self.projects = Projects(database)
        self.users = Users(database)
        self.tokens = Tokens(database)
        self.sessions = Sessions(database)
        self.audit = Audit(database)
        self.webhooks = Webhooks(database)
        self.messages = Messages(database)

    @classmethod
    def open(cls, url: str, *, max_queued_jobs: int = 1000) -> Store:
        """Open the database at a SQLAlchemy URL. Does not create tables: see `minimizer.store.tables.migrate.upgrade`."""
        return cls(Database(url), max_queued_jobs)

    def ping(self) -> None:
        """Check that the database answers and accepts a write (a full disk can still be read); raises the driver's error."""
        with self._database.write() as session:
            session.execute(text("UPDATE alembic_version SET version_num = version_num"))

    def close(self) -> None:
        """Close the pooled connections."""
        self._database.close()
