"""Searching sorted values, for kernels of all files: keys, words and bounds alike.

All give the first position of values[low:high] that is not below a word.
"""

from __future__ import annotations

from typing import Any

from numpy import uint64 as u8

from caladan.columns.kernels import helper

Array = Any
Scalar = Any


@helper
def lower_bound(values: Array, low: Scalar, high: Scalar, word: Scalar) -> Scalar:
    """By halves: log2(high - low) steps.

    Branches beat arithmetic here, for stretches are short and the processor runs ahead; unsigned
    indices spare numba's test for negative ones.
    """
    length = high - low
    while length > 0:
        half = length >> 1
        if values[u8(low + half)] < word:
            low += half + 1
            length -= half + 1
        else:
            length = half
    return low


@helper
def gallop(values: Array, low: Scalar, high: Scalar, word: Scalar) -> Scalar:
    """By growing steps, about 2 log2(distance) of them: cheap when the answer is near `low`."""
    step = 1
    while low < high and values[u8(low)] < word:
        ahead = low + step
        if ahead >= high or values[u8(ahead)] >= word:
            return lower_bound(values, low + 1, min(ahead, high), word)
        low = ahead + 1
        step += step
    return low


@helper
def seek(values: Array, low: Scalar, high: Scalar, word: Scalar, left: Scalar) -> Scalar:
    """By the way that is cheaper when `left` more words will be sought.

    Few words in a long list are far apart: galloping would take twice the steps.
    """
    if high - low > left << 4:
        return lower_bound(values, low, high, word)
    return gallop(values, low, high, word)
