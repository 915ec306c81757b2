"""Aggregates by group: the best value, exact sums of integers, compensated sums of doubles.

Groups and contributors are dense numbers, so all state is arrays. Every kernel is one pass over a
batch; `touched` gets the groups it saw, so that only those are looked at afterwards.

A sum of integers is kept in 128 bits, as a signed high and an unsigned low word: it is exact, and
whether it fits into 64 bits is decided at the end. A sum of doubles is kept with its rounding error
beside it (Neumaier); infinities and NaN are counted apart, so that they can be taken back.

A contributor may have several solutions: a chain of them for each table, `first` by contributor and
`following` by solution, 1 more than the number of a solution and 0 at the end. It counts with the
largest amount of its solutions. Where that one falls, all of them are looked at when a batch is
through.
"""

from __future__ import annotations

from math import inf
from typing import Any

from numpy import int64 as i8, uint32 as u4, uint64 as u8

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
def add_compensated(
    group: Scalar, amount: float, sign: float, total: Array, error: Array, special: Array
) -> None:
    """Add a double to a sum, or with the sign -1 take it back, and what rounding lost to the error.

    `special` counts NaN, infinity and minus infinity, group after group.
    """
    if amount != amount:
        special[3 * group] += i8(sign)
        return
    if abs(amount) == inf:
        special[3 * group + (1 if amount > 0 else 2)] += i8(sign)
        return
    before = total[group]
    after = before + sign * amount
    if abs(before) >= abs(amount):
        error[group] += (before - after) + sign * amount
    else:
        error[group] += (sign * amount - after) + before
    total[group] = after


@helper
def below(one: float, other: float) -> bool:
    """Whether a double is smaller than another one; NaN is the largest."""
    return one < other or (other != other and one == one)


@kernel("void(i8[::1], i8[::1], u8[::1], i8[::1])")
def add_integers(groups: Array, amounts: Array, low: Array, high: Array) -> None:
    """Add every amount to its group."""
    for i in range(groups.size):
        add_wide(groups[i], amounts[i], low, high)


@kernel("void(i8[::1], f8[::1], f8[::1], f8[::1], i8[::1])")
def add_floats(groups: Array, amounts: Array, total: Array, error: Array, special: Array) -> None:
    """Add every amount to its group."""
    for i in range(groups.size):
        add_compensated(groups[i], amounts[i], 1.0, total, error, special)


@kernel("void(i8[::1], u4[::1], i8[::1], i8[::1], b1[::1], b1, u8[::1], i8[::1])")
def place_integers(
    groups: Array,
    contributors: Array,
    amounts: Array,
    held: Array,
    known: Array,
    latest: bool,
    low: Array,
    high: Array,
) -> None:
    """Put every amount into its contributor's place, and the difference into the group's sum.

    With `latest`, a contributor has its last amount; else it keeps the largest.
    """
    for i in range(groups.size):
        who = contributors[i]
        amount = amounts[i]
        if known[who]:
            if amount == held[who] or (not latest and amount < held[who]):
                continue
            # Minus the held amount is its complement and 1: the smallest has no negative.
            add_wide(groups[i], ~held[who], low, high)
            add_wide(groups[i], 1, low, high)
        known[who] = True
        held[who] = amount
        add_wide(groups[i], amount, low, high)


@kernel("void(i8[::1], u4[::1], f8[::1], f8[::1], b1[::1], b1, f8[::1], f8[::1], i8[::1])")
def place_floats(
    groups: Array,
    contributors: Array,
    amounts: Array,
    held: Array,
    known: Array,
    latest: bool,
    total: Array,
    error: Array,
    special: Array,
) -> None:
    """As `place_integers`."""
    for i in range(groups.size):
        who = contributors[i]
        amount = amounts[i]
        if known[who]:
            if not below(amount, held[who]) and not below(held[who], amount):
                continue
            if not latest and below(amount, held[who]):
                continue
            add_compensated(groups[i], held[who], -1.0, total, error, special)
        known[who] = True
        held[who] = amount
        add_compensated(groups[i], amount, 1.0, total, error, special)


@kernel("void(u4[::1], u4[::1], u4[::1], u4[::1])")
def chain(solutions: Array, contributors: Array, first: Array, following: Array) -> None:
    """Put new solutions into the chains of their contributors."""
    for i in range(solutions.size):
        following[solutions[i]] = first[contributors[i]]
        first[contributors[i]] = solutions[i] + u4(1)


@kernel(
    [
        f"void(i8[::1], u4[::1], {t}[::1], {t}[::1], b1[::1], b1, {t}[::1], b1[::1], b1[::1])"
        for t in ("i8", "f8")
    ]
)
def hold(
    contributors: Array,
    solutions: Array,
    amounts: Array,
    values: Array,
    has: Array,
    latest: bool,
    best: Array,
    known: Array,
    fallen: Array,
) -> None:
    """Give every solution its amount, and every contributor of the batch the best of them.

    A contributor whose best solution fell is marked as fallen: the best of all is not known.
    """
    for i in range(solutions.size):
        which = solutions[i]
        who = contributors[i]
        amount = amounts[i]
        if has[which]:
            old = values[which]
            if below(amount, old):
                if not latest:
                    continue
                fallen[who] |= not below(old, best[who])
        has[which] = True
        values[which] = amount
        if not known[who] or below(best[who], amount):
            known[who] = True
            best[who] = amount


@kernel([f"void(u4[::1], u4[::1], u4[::1], {t}[::1], b1[::1], {t}[::1])" for t in ("i8", "f8")])
def largest(
    contributors: Array, first: Array, following: Array, values: Array, found: Array, best: Array
) -> None:
    """The largest amount of all solutions of contributors; `found` says who has one already."""
    for i in range(contributors.size):
        solution = first[contributors[i]]
        while solution != 0:
            amount = values[solution - 1]
            if not found[i] or below(best[i], amount):
                found[i] = True
                best[i] = amount
            solution = following[solution - 1]
