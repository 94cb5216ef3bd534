"""Captures standard output at its descriptor: Dynamo knows ``print`` by identity, so ``print`` must not be replaced."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile


class StandardOutput:
    """Collects the output of this process from now on, until it is given back."""

    def __init__(self) -> None:
        _flush()
        self._printed, name = tempfile.mkstemp()
        os.unlink(name)
        self._out = os.dup(1)
        os.dup2(self._printed, 1)

    @property
    def size(self) -> int:
        """Bytes printed so far."""
        _flush()
        return os.fstat(self._printed).st_size

    def text(self, most: int) -> str:
        """The output so far, at most this many bytes from its beginning."""
        _flush()
        return os.pread(self._printed, most, 0).decode("utf-8", "replace")

    def give_back(self) -> None:
        """Write the output to its destination, and stop collecting."""
        _flush()
        os.lseek(self._printed, 0, os.SEEK_SET)
        while chunk := os.read(self._printed, 1 << 20):
            os.write(self._out, chunk)
        os.dup2(self._out, 1)
        os.close(self._out)
        os.close(self._printed)


def _flush() -> None:
    for stream in {sys.stdout, sys.__stdout__}:
        with contextlib.suppress(Exception):  # closed, or replaced by the script
            stream.flush()  # type: ignore[union-attr]
