"""Kernels that build tries: 64-bit words into packed keys, and levels out of sorted keys.

All are one linear pass. A column takes `width` bits of a key and is counted from its lowest word,
so that negative words pack and sort as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from caladan.columns.kernels import kernel


@kernel("void(u8[::1], i8[::1], i8, i8)")
def push_column(keys: Any, words: Any, low: int, width: int) -> None:
    """Append a column to the keys, at their lower end."""
    by = np.uint64(width)
    least = np.uint64(np.int64(low))  # Python refuses a negative number, an int64 wraps around
    for i in range(keys.size):
        # A width of 64 leaves no room for others; shifting by it would leave the key as it is.
        before = keys[i] << by if width < 64 else np.uint64(0)
        keys[i] = before | (np.uint64(words[i]) - least)


@kernel("void(u8[::1], i8, u8, i8, i8[::1])")
def read_column(keys: Any, shift: int, mask: int, low: int, words: Any) -> None:
    """A column of the keys as words. `words` may be the keys themselves, in another type."""
    by = np.uint64(shift)
    least = np.uint64(np.int64(low))  # Python refuses a negative number, an int64 wraps around
    for i in range(keys.size):
        words[i] = np.int64(((keys[i] >> by) & mask) + least)


@kernel("i8(u8[::1], i8)")
def count_starts(keys: Any, shift: int) -> int:
    """How often the sorted keys change above `shift`, the first key included."""
    by = np.uint64(shift)
    found = 0
    for i in range(1, keys.size):
        found += keys[i] >> by != keys[i - 1] >> by
    return found + (keys.size > 0)


@kernel("void(u8[::1], i8, i8[::1])")
def list_starts(keys: Any, shift: int, starts: Any) -> None:
    """Where they change; `starts` has room for that, and at its end the number of keys."""
    by = np.uint64(shift)
    found = 0
    for i in range(keys.size):
        if i == 0 or keys[i] >> by != keys[i - 1] >> by:
            starts[found] = i
            found += 1
    starts[found] = keys.size


@kernel("void(u8[::1], i8[::1], i8, u8, i8, i8[::1])")
def read_column_at(keys: Any, at: Any, shift: int, mask: int, low: int, words: Any) -> None:
    """A column of some of the keys as words."""
    by = np.uint64(shift)
    least = np.uint64(np.int64(low))  # Python refuses a negative number, an int64 wraps around
    for i in range(words.size):
        words[i] = np.int64(((keys[at[i]] >> by) & mask) + least)
