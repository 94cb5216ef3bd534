"""Large values in files on disk: what a comparison keeps takes no memory of its own, and a copy of it takes some only where it is written to.

A file has no name, and its space is free again once the last storage that lies in it is gone. Where none can be written, since the disk has
little space left, values stay in memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import UntypedStorage

LEAST = 1 << 20
"""Bytes of the smallest storage that is put in a file: a smaller one is copied in less time than it takes to map it."""
SPARE = 4 << 30
"""Bytes that stay free on the disk behind what is written: a job that leaves less than a fourth of them is ended."""
MOST_FILES = 64
"""Files that are kept to be copied from: each takes two descriptors, of which a process has a thousand, and the script needs some."""
MOST_WRITTEN = 1 << 30
"""Bytes of one write: the system writes no more than 2 GiB at once."""


NO_ROOM = (OSError, RuntimeError, ValueError)
"""What is raised where a file cannot be made, written or mapped, by Python and by torch."""


class _Pages(mmap.mmap):
    """A mapping of a file with several storages, which each of them keeps alive."""

    file: int
    """A descriptor of the file, while the mapping lives."""
    places: Mapping[int, tuple[int, int]]
    """(offset, bytes) of each storage in it, by its address."""


_COPIED = weakref.WeakValueDictionary[int, _Pages]()
"""The mappings of values that no run changes, by the addresses of the storages in them."""


_LEFT = set[int]()
"""Sizes of the storages that were put in files since memory was last given back."""


def is_large(storage: UntypedStorage) -> bool:
    """Whether a storage is worth a file."""
    return storage.device.type == "cpu" and storage.nbytes() >= LEAST


def put(storage: UntypedStorage) -> UntypedStorage | None:
    """A copy of a storage that lies in a file of its own, and may be written to; None if there is no room for it."""
    size = storage.nbytes()
    with contextlib.suppress(*NO_ROOM), tempfile.TemporaryFile(buffering=0) as file:
        _check_room(file.fileno(), size)
        _write(file.fileno(), storage, 0)
        _LEFT.add(size)
        mapped: Any = UntypedStorage.from_file(f"/proc/self/fd/{file.fileno()}", True, size)
        return cast(UntypedStorage, mapped)
    return None


def put_for_copies(storages: Sequence[UntypedStorage]) -> list[UntypedStorage] | None:
    """The same for values that no run changes, in one file: `copies` maps them from there."""
    if len({*map(id, _COPIED.values())}) >= MOST_FILES:
        return None
    places = _places(storages)
    size = sum(places[-1])
    with contextlib.suppress(*NO_ROOM), tempfile.TemporaryFile(buffering=0) as file:
        _check_room(file.fileno(), size)
        for storage, (offset, _) in zip(storages, places, strict=True):
            _write(file.fileno(), storage, offset)
        mapped = _Pages(file.fileno(), size)
        mapped.file = os.dup(file.fileno())
        weakref.finalize(mapped, os.close, mapped.file)
        kept = [_storage(mapped, *place) for place in places]
        mapped.places = {storage.data_ptr(): place for storage, place in zip(kept, places, strict=True)}
        _COPIED.update(dict.fromkeys(mapped.places, mapped))
        return kept
    return None


def has_kept() -> bool:
    """Whether there is anything that `copies` could copy."""
    return bool(_COPIED)


def copies(storages: Sequence[UntypedStorage]) -> list[UntypedStorage | None]:
    """A copy of each storage that `put_for_copies` has made, None for others, or where none can be mapped.

    It takes memory where it is written to.
    """
    _trim()
    private: dict[int, _Pages] = {}
    return [_copy(storage, private) for storage in storages]


def _copy(storage: UntypedStorage, private: dict[int, _Pages]) -> UntypedStorage | None:
    address = storage.data_ptr()
    kept = _COPIED.get(address)
    if kept is None:
        return None
    with contextlib.suppress(*NO_ROOM):
        if kept.file not in private:
            private[kept.file] = _Pages(kept.file, len(kept), access=mmap.ACCESS_COPY)
        return _storage(private[kept.file], *kept.places[address])
    return None


def _trim() -> None:
    """Give the memory back of values that were put in files: the C library keeps what was freed, and the next run has values of other sizes."""
    if _LEFT:
        _LEFT.clear()
        with contextlib.suppress(AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)


def _check_room(file: int, size: int) -> None:
    """Raise an OSError where the disk of a file has no room for so much."""
    disk = os.fstatvfs(file)
    if disk.f_bavail * disk.f_frsize < size + SPARE:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _places(storages: Sequence[UntypedStorage]) -> list[tuple[int, int]]:
    """(offset, bytes) of storages in a file, one behind another, each at the beginning of a page."""
    places, end = [], 0
    for storage in storages:
        places.append((end, storage.nbytes()))
        end = -(-(end + storage.nbytes()) // mmap.PAGESIZE) * mmap.PAGESIZE
    return places


def _write(file: int, storage: UntypedStorage, offset: int) -> None:
    left = memoryview((ctypes.c_char * storage.nbytes()).from_address(storage.data_ptr())).cast("B")
    while left:
        count = os.pwrite(file, left[:MOST_WRITTEN], offset)
        left, offset = left[count:], offset + count


def _storage(mapped: _Pages, offset: int, size: int) -> UntypedStorage:
    with torch._C.DisableTorchFunction():
        return torch.frombuffer(mapped, dtype=torch.uint8, offset=offset, count=size).untyped_storage()
