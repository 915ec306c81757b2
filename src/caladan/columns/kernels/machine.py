"""The tables of the tiny-delta machine (worklist.py), and how facts are found in them.

What is known of a relation is in its runs, read in place through their addresses, and in a tail of
new facts: keys in the base packing, in the order in which they were found. To tell what is there, a
tail has a bit for every key where those are few, else a hash table; for each index of the relation
there is a hash table of chains. All that a hash table holds is numbers of facts in the tail. A fact
enters the indexes when it is taken from the worklist; so of two facts that meet in a rule, the
later one finds the earlier. A tail that is full ends the work: whoever called makes it larger,
enters its facts into the larger tables, and calls again.

Tables, one record each:

    relations   where the tail of a relation stands, its runs and indexes, the rules it seeds
    indexes     a relation by some columns: its runs in that order, its chains in the tail. The
                first of a relation in the clique is by all columns, and tells what is there
    fields      how the lookup key of an index is made from a fact: shift, mask, shift in the key
    runs        address and length of the keys, address and length of the bounds
    steps       a rule: seed, then lookups, tests, arithmetic and a head, each with its terms
    terms       a word: a register or a constant, and its places in keys
    states      where the lookup of a step stands
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy import int64 as i8, uint32 as u4, uint64 as u8

from caladan.columns.kernels import helper, instruction
from caladan.columns.kernels.hashing import slot_of

Array = Any
Record = Any
Scalar = Any  # numba tells signed and unsigned apart, Python does not

RELATIONS: Final = np.dtype([
    ("tail", "i8"), ("capacity", "i8"), ("count", "i8"), ("taken", "i8"), ("end", "i8"),
    ("index_0", "i8"), ("index_n", "i8"), ("bits", "i8"), ("rule_0", "i8"), ("rule_n", "i8"),
    ("value_bits", "u8"), ("larger", "i8"),
])  # fmt: skip
INDEXES: Final = np.dtype([
    ("tail", "i8"), ("slots", "i8"), ("mask", "u8"), ("chain", "i8"), ("field_0", "i8"),
    ("field_n", "i8"), ("run_0", "i8"), ("run_n", "i8"), ("shift", "u8"), ("lead", "u8"),
])  # fmt: skip
FIELDS: Final = np.dtype([("shift", "u8"), ("mask", "u8"), ("place", "u8")])
RUNS: Final = np.dtype([("keys", "i8"), ("keys_n", "i8"), ("bounds", "i8"), ("bounds_n", "i8")])
STEPS: Final = np.dtype([
    ("kind", "i8"), ("what", "i8"), ("extra", "i8"), ("key_0", "i8"), ("key_n", "i8"),
    ("bind_0", "i8"), ("bind_n", "i8"), ("check_0", "i8"), ("check_n", "i8"),
])  # fmt: skip
TERMS: Final = np.dtype([
    ("register", "i8"), ("base_shift", "u8"), ("mask", "u8"), ("index_shift", "u8"),
    ("constant", "i8"),
])  # fmt: skip
STATES: Final = np.dtype([
    ("at", "i8"), ("stop_at", "i8"), ("next_run", "i8"), ("address", "i8"), ("link", "i8"),
    ("key", "u8"),
])  # fmt: skip
# Kinds of steps.
SEED, LOOKUP, EXISTS, ABSENT, COMPARE, EMIT, COMPUTE, CHOOSE = range(8)
# The range of 64 bits.
LEAST, MOST = -(2**63), 2**63 - 1
# What `work` returns, besides the number of a relation whose tail is full.
DONE, LARGE, STOPPED, BEYOND = -1, -2, -3, -4
# Comparisons, by what is `extra`.
EQUAL, DIFFERENT, LESS, LESS_EQUAL = range(4)
# Computations, by `extra`. RANK reads a table of ranks; WORD leaves the distance from a base.
ADD, SUBTRACT, MULTIPLY, DIVIDE, REMAINDER, RANK, WORD = range(7)


def _load(builder: Any, given: Any) -> Any:
    from llvmlite import ir

    offset = builder.shl(given[1], ir.Constant(ir.IntType(64), 3))
    pointer = builder.inttoptr(builder.add(given[0], offset), ir.IntType(64).as_pointer())
    return builder.load(pointer)


# load(address, index): the 64 bits at an address, counted in units of 8 bytes.
load: Any = instruction("u8(i8, i8)", _load)


@helper
def lower_bound_at(address: Scalar, low: Scalar, high: Scalar, key: Scalar) -> Scalar:
    """The first position in low:high of the run at an address whose key is not smaller."""
    n = high - low
    while n > 0:
        half = n >> 1
        if load(address, low + half) < key:
            low += half + 1
            n -= half + 1
        else:
            n = half
    return low


@helper
def find_start(run: Record, index: Record, key: Scalar) -> Any:
    """Where the keys that match may start in a run, and where to stop looking."""
    start = i8(0)
    end = run.keys_n
    if run.bounds != 0:
        word = i8(key >> index.lead)
        if word + 1 >= run.bounds_n:
            return i8(0), i8(0)
        start = i8(load(run.bounds, word))
        end = i8(load(run.bounds, word + 1))
        if index.lead == u8(0):
            return start, end
    return lower_bound_at(run.keys, start, end, key << index.shift), end


@helper
def match_in_runs(index: Record, key: Scalar, runs: Array) -> Any:
    """Whether some run has a key that matches, and the first one."""
    for r in range(index.run_0, index.run_n):
        start, end = find_start(runs[r], index, key)
        if start < end:
            match = load(runs[r].keys, start)
            if (match >> index.shift) == key:
                return True, match
    return False, u8(0)


@helper
def lookup_of(fact: Scalar, index: Record, fields: Array) -> Scalar:
    """The lookup key of a fact."""
    key = u8(0)
    for f in range(index.field_0, index.field_n):
        key |= ((fact >> fields[f].shift) & fields[f].mask) << fields[f].place
    return key


@helper
def tail_slot(index: Record, key: Scalar, fields: Array, facts: Array, owners: Array) -> Scalar:
    """The slot of a lookup key in the hash table of an index, or the free one where it belongs."""
    at = slot_of(key, index.mask)
    while True:
        slot = index.slots + i8(at)
        if owners[slot] == u4(0):
            return slot
        if lookup_of(facts[index.tail + i8(owners[slot]) - 1], index, fields) == key:
            return slot
        at = (at + u8(1)) & index.mask


@helper
def enter(
    fact: Scalar, index: Record, fields: Array, facts: Array, owners: Array, links: Array
) -> None:
    """Put a fact of the tail at the head of its chain, if it is not there."""
    key = lookup_of(facts[index.tail + fact], index, fields)
    slot = tail_slot(index, key, fields, facts, owners)
    if i8(owners[slot]) != fact + 1:
        if index.chain >= 0:
            links[index.chain + fact] = owners[slot]
        owners[slot] = u4(fact + 1)


@helper
def matches_of(
    index: Record, key: Scalar, most: Scalar, fields: Array, runs: Array, facts: Array,
    owners: Array, links: Array,
) -> Scalar:  # fmt: skip
    """How many facts match a key; those of the tail are counted up to `most`."""
    found = i8(0)
    for r in range(index.run_0, index.run_n):
        start, end = find_start(runs[r], index, key)
        if start < end:
            found += lower_bound_at(runs[r].keys, start, end, (key + u8(1)) << index.shift) - start
    if index.chain >= 0:
        link = i8(owners[tail_slot(index, key, fields, facts, owners)]) - 1
        while link >= 0 and found < most:
            found += 1
            link = i8(links[index.chain + link]) - 1
    return found
