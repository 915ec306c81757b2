"""Aggregates by group: the best value, exact sums of integers, compensated sums of doubles.

Groups and contributors are dense numbers, so all state is arrays. Every kernel is one pass over a
batch; `touched` gets the groups it saw, so that only those are looked at afterwards.

A sum of integers is kept in 128 bits, as a signed high and an unsigned low word: it is exact, and
whether it fits into 64 bits is decided at the end. A sum of doubles is kept with its rounding error
beside it (Neumaier), and once more plainly, for infinities.
"""

from __future__ import annotations

from typing import Any

from numpy import int64 as i8, uint64 as u8

from caladan.columns.kernels import helper, kernel

Array = Any
Scalar = Any  # numba tells signed and unsigned apart, Python does not


@kernel("void(i8[::1], i8[::1], i8[::1], b1[::1], b1)")
def improve(groups: Array, ranks: Array, best: Array, known: Array, smaller: bool) -> None:
    """Keep the smallest (or largest) rank of each group."""
    for i in range(groups.size):
        group = groups[i]
        rank = ranks[i]
        if not known[group]:
            known[group] = True
            best[group] = rank
        elif (rank < best[group]) if smaller else (rank > best[group]):
            best[group] = rank


@helper
def add_wide(group: Scalar, amount: Scalar, low: Array, high: Array) -> None:
    """Add a 64-bit amount to a 128-bit sum."""
    before = low[group]
    after = before + u8(amount)
    low[group] = after
    high[group] += (amount >> 63) + i8(after < before)


@helper
def add_compensated(group: Scalar, amount: float, total: Array, error: Array, plain: Array) -> None:
    """Add a double to a sum and what rounding lost to its error."""
    before = total[group]
    after = before + amount
    if abs(before) >= abs(amount):
        error[group] += (before - after) + amount
    else:
        error[group] += (amount - after) + before
    total[group] = after
    plain[group] += amount


@kernel("void(i8[::1], i8[::1], u8[::1], i8[::1])")
def add_integers(groups: Array, amounts: Array, low: Array, high: Array) -> None:
    """Add every amount to its group."""
    for i in range(groups.size):
        add_wide(groups[i], amounts[i], low, high)


@kernel("void(i8[::1], f8[::1], f8[::1], f8[::1], f8[::1])")
def add_floats(groups: Array, amounts: Array, total: Array, error: Array, plain: Array) -> None:
    """Add every amount to its group."""
    for i in range(groups.size):
        add_compensated(groups[i], amounts[i], total, error, plain)


@kernel("void(i8[::1], u4[::1], i8[::1], i8[::1], b1[::1], b1, u8[::1], i8[::1])")
def place_integers(
    groups: Array,
    contributors: Array,
    amounts: Array,
    held: Array,
    known: Array,
    larger: bool,
    low: Array,
    high: Array,
) -> None:
    """Put every amount into its contributor's place, and the difference into the group's sum.

    With `larger`, a contributor keeps the larger of its amounts; else the last one.
    """
    for i in range(groups.size):
        who = contributors[i]
        amount = amounts[i]
        if known[who]:
            if amount == held[who] or (larger and amount < held[who]):
                continue
            # Minus the held amount is its complement and 1: the smallest has no negative.
            add_wide(groups[i], ~held[who], low, high)
            add_wide(groups[i], 1, low, high)
        known[who] = True
        held[who] = amount
        add_wide(groups[i], amount, low, high)


@kernel("void(i8[::1], u4[::1], f8[::1], f8[::1], b1[::1], b1, f8[::1], f8[::1], f8[::1])")
def place_floats(
    groups: Array,
    contributors: Array,
    amounts: Array,
    held: Array,
    known: Array,
    larger: bool,
    total: Array,
    error: Array,
    plain: Array,
) -> None:
    """As `place_integers`. NaN counts as larger than every number."""
    for i in range(groups.size):
        who = contributors[i]
        amount = amounts[i]
        if known[who]:
            if amount == held[who] or held[who] != held[who]:
                continue
            if larger and amount < held[who]:
                continue
            add_compensated(groups[i], -held[who], total, error, plain)
        known[who] = True
        held[who] = amount
        add_compensated(groups[i], amount, total, error, plain)
