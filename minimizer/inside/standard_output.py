"""Standard output, taken by its descriptor: Dynamo knows ``print`` by identity, so that nothing may replace it."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile


class StandardOutput:
    """Collects what this process prints from now on, until it is given back."""

    def __init__(self) -> None:
        _flush()
        self._printed, name = tempfile.mkstemp()
        os.unlink(name)
        self._out = os.dup(1)
        os.dup2(self._printed, 1)

    @property
    def size(self) -> int:
        """Bytes that were printed so far."""
        _flush()
        return os.fstat(self._printed).st_size

    def text(self, most: int) -> str:
        """What was printed so far, at most so many bytes from its beginning."""
        _flush()
        return os.pread(self._printed, most, 0).decode("utf-8", "replace")

    def give_back(self) -> None:
        """Write what was printed to where it would have gone, and stop collecting."""
        _flush()
        os.lseek(self._printed, 0, os.SEEK_SET)
        while chunk := os.read(self._printed, 1 << 20):
            os.write(self._out, chunk)
        os.dup2(self._out, 1)
        os.close(self._out)
        os.close(self._printed)


def _flush() -> None:
    for stream in {sys.stdout, sys.__stdout__}:
        with contextlib.suppress(Exception):  # closed, or one of the script's own
            stream.flush()  # type: ignore[union-attr]
