"""Content by its hash: every script and artifact is stored once, compressed, however many jobs have it."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sqlalchemy import delete, exists, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from minimizer.store.tables.database import Database
from minimizer.store.tables.models import ArtifactRow, BlobRow, JobRow

_PIECE = 1 << 16
# One for each column: the database has an index to ask, and need not look at every row for every blob.
_UNUSED = [
    ~exists().where(column == BlobRow.sha256) for column in (JobRow.script_sha, JobRow.archive_sha, ArtifactRow.sha256)
]


class Packed(NamedTuple):
    """Content as it is stored."""

    sha256: str
    size: int
    compressed: bytes


def pack(content: bytes) -> Packed:
    """Make content ready for `put`, outside of the transaction: nobody else can write to SQLite while one lasts."""
    return Packed(hashlib.sha256(content).hexdigest(), len(content), zlib.compress(content))


def put(session: Session, packed: Packed) -> str:
    """Store content and return its sha256. The row is locked, so nobody collects it before we have referred to it."""
    sha = packed.sha256
    if session.get(BlobRow, sha, with_for_update={"read": True, "key_share": True}) is not None:
        return sha
    dialect = sqlite if session.get_bind().dialect.name == "sqlite" else postgresql
    statement = dialect.insert(BlobRow).values(packed._asdict())
    # Another job may store the same content at this moment; the update that changes nothing waits for it and takes the lock.
    session.execute(statement.on_conflict_do_update(index_elements=["sha256"], set_={"size": statement.excluded.size}))
    return sha


def get(session: Session, sha: str) -> bytes:
    """The content of a blob that something refers to."""
    return zlib.decompress(session.get_one(BlobRow, sha).compressed)


def stream(session: Session, sha: str) -> Iterator[bytes]:
    """The same in pieces, which can be read when the session has ended: the whole may be far larger than what is stored."""
    compressed = session.get_one(BlobRow, sha).compressed
    return _unpacked(compressed)


def _unpacked(compressed: bytes) -> Iterator[bytes]:
    unpacking = zlib.decompressobj()
    while compressed:
        yield unpacking.decompress(compressed, _PIECE)
        compressed = unpacking.unconsumed_tail
    yield unpacking.flush()


def unused(session: Session, limit: int) -> list[str]:
    """Some of the blobs that nothing refers to. One that a transaction under way will refer to is none for `collect`."""
    return list(session.scalars(select(BlobRow.sha256).where(*_UNUSED).limit(limit)))


def collect(database: Database, shas: Iterable[str]) -> None:
    """Delete those of the blobs that nothing refers to any more."""
    for sha in shas:
        try:
            with database.write() as session:
                session.execute(delete(BlobRow).where(BlobRow.sha256 == sha, *_UNUSED))
        except IntegrityError:
            pass  # somebody began to refer to it while we looked: it stays
