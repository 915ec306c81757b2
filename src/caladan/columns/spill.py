"""Space on disk for runs that memory has no room for.

Runs are immutable and read mostly in order, so a run in a memory-mapped file is as good as one in
memory, for as long as the system finds pages for what is being read. The file has no name from the
start: whatever happens to this process, nothing is left behind.
"""

from __future__ import annotations

import os
import tempfile

import numpy as np

from caladan.columns.layout import Keys


class NoSpace(MemoryError):
    """The disk is full."""


class Space:
    """Files in a temporary folder (TMPDIR), as arrays of keys."""

    def __init__(self) -> None:
        self.nbytes = 0  # handed out so far

    def empty(self, keys: int) -> Keys:
        """Room for so many keys."""
        try:
            with tempfile.TemporaryFile(prefix="caladan-") as file:
                _take_room(file.fileno(), max(1, keys) * 8)
                mapped = np.memmap(file, np.uint64, "r+", shape=(keys,))
        except OSError as problem:
            raise NoSpace(str(problem)) from None
        self.nbytes += mapped.nbytes
        return np.asarray(mapped)


def _take_room(file: int, nbytes: int) -> None:
    """Take room for a file now: a page that finds no place later would kill the process."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, nbytes)
    else:  # macOS: what is written is there, what is left out may not be
        zeros = bytes(1 << 20)
        for at in range(0, nbytes, len(zeros)):
            os.pwrite(file, zeros[: nbytes - at], at)
