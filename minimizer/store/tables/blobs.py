"""Content-addressed storage: every script and artifact is stored once, compressed, however many jobs have it."""

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
"""Bytes of one piece of a streamed blob."""
# One condition for each column, so that the database can use each column's index instead of scanning all rows.
_UNUSED = [
    ~exists().where(column == BlobRow.sha256) for column in (JobRow.script_sha, JobRow.archive_sha, ArtifactRow.sha256)
]


class Packed(NamedTuple):
    """Compressed content with its hash and its uncompressed size in bytes."""

    sha256: str
    size: int
    compressed: bytes


def pack(content: bytes) -> Packed:
    """Hash and compress content for `put`; do this outside the transaction, which blocks all other writers of SQLite."""
    return Packed(hashlib.sha256(content).hexdigest(), len(content), zlib.compress(content))


def put(session: Session, packed: Packed) -> str:
    """Store content and return its sha256. The row is locked, so that it is not collected before a reference is written."""
    sha = packed.sha256
    if session.get(BlobRow, sha, with_for_update={"read": True, "key_share": True}) is not None:
        return sha
    dialect = sqlite if session.get_bind().dialect.name == "sqlite" else postgresql
    statement = dialect.insert(BlobRow).values(packed._asdict())
    # Another transaction may be storing the same content; the no-op update waits for it and takes the row lock.
    session.execute(statement.on_conflict_do_update(index_elements=["sha256"], set_={"size": statement.excluded.size}))
    return sha


def get(session: Session, sha: str) -> bytes:
    """The content of a referenced blob."""
    return zlib.decompress(session.get_one(BlobRow, sha).compressed)


def stream(session: Session, sha: str) -> Iterator[bytes]:
    """The content in pieces, which can be read after the session has ended; it may be far larger than its compressed form."""
    compressed = session.get_one(BlobRow, sha).compressed
    return _unpacked(compressed)


def _unpacked(compressed: bytes) -> Iterator[bytes]:
    unpacking = zlib.decompressobj()
    for begin in range(0, len(compressed), _PIECE):
        left = compressed[begin : begin + _PIECE]  # in pieces, since each call copies the whole rest
        while left:
            yield unpacking.decompress(left, _PIECE)
            left = unpacking.unconsumed_tail
    yield unpacking.flush()


def unused(session: Session, limit: int) -> list[str]:
    """Hashes of unreferenced blobs, at most ``limit``. `collect` checks again, since a transaction in progress may reference one."""
    return list(session.scalars(select(BlobRow.sha256).where(*_UNUSED).limit(limit)))


def collect(database: Database, shas: Iterable[str]) -> None:
    """Delete those of these blobs that are unreferenced."""
    for sha in shas:
        try:
            with database.write() as session:
                session.execute(delete(BlobRow).where(BlobRow.sha256 == sha, *_UNUSED))
        except IntegrityError:
            pass  # referenced meanwhile: it stays
