"""The tiny-delta machine: the rules of a clique as integer tables, run fact by fact.

A round that finds a handful of facts costs a hundred microseconds when it is driven from Python.
This kernel takes a worklist instead: it takes the next fact that was found, runs every rule seeded
by its relation, tuple at a time, and appends what is new to the worklist. 0.3 µs a firing; for
large deltas whole columns are several times faster, so it returns when the worklist grows.

What is known of a relation is in its runs, read in place through their addresses, and in a tail of
new facts: keys in the base packing, in the order in which they were found. To tell what is there, a
tail has a bit for every key where those are few, else a hash table; for each index of the relation
there is a hash table of chains. All that a hash table holds is numbers of facts in the tail. A fact
enters the indexes when it is taken from the worklist; so of two facts that meet in a rule, the
later one finds the earlier. A tail that is full ends the work: whoever called makes it larger,
enters its facts into the larger tables, and calls again.

A relation of groups with a best value (mmin, mmax) has its value in the lowest bits of a key, and
the hash table is one of groups. A better value of a group is a new fact; the one before stays in
the worklist if its round has begun, and gives its place up otherwise.

Tables, one record each:

    relations   where the tail of a relation stands, its runs and indexes, the rules it seeds
    indexes     a relation by some columns: its runs in that order, its chains in the tail. The
                first of a relation in the clique is by all columns, and tells what is there
    fields      how the lookup key of an index is made from a fact: shift, mask, shift in the key
    runs        address and length of the keys, address and length of the bounds
    steps       a rule: seed, then lookups, tests, arithmetic and a head, each with its terms
    terms       a word: a register or a constant, and its places in keys
    states      where the lookup of a step stands

Atoms that meet in a variable are a `CHOOSE`, a lookup of each, and a test of each: the one that has
the fewest matches proposes, its test and the lookups of the others are passed over. `extra` of such
steps is their distance from the `CHOOSE`. A test of an atom that has more to bind is a lookup, too.

Arithmetic goes by ranks: a computation reads ranks and leaves one in a register, `RANK` and
`WORD` go from words to ranks and back. The machine does only what is sure: a number that leaves 64
bits, a division by zero, a word that its domain or a key has no room for ends the work before the
fact is taken, and the round is done by whole columns, which know what to make of it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy import int64 as i8, uint32 as u4, uint64 as u8

from caladan.columns.kernels import helper, instruction, kernel

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
def scrambled(key: Scalar) -> Scalar:
    """A hash."""
    h = key * u8(0x9E3779B97F4A7C15)
    return h ^ (h >> u8(32))


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
def slot_of(index: Record, key: Scalar, fields: Array, facts: Array, owners: Array) -> Scalar:
    """The slot of a lookup key in the hash table of an index, or the free one where it belongs."""
    at = scrambled(key) & index.mask
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
    slot = slot_of(index, key, fields, facts, owners)
    if i8(owners[slot]) != fact + 1:
        if index.chain >= 0:
            links[index.chain + fact] = owners[slot]
        owners[slot] = u4(fact + 1)


@helper
def value(term: Record, registers: Array) -> Scalar:
    """What a term stands for."""
    return term.constant if term.register < 0 else registers[term.register]


@helper
def improves(key: Scalar, known: Scalar, relation: Record) -> bool:
    """Whether a key has a better value than another one of its group."""
    mask = (u8(1) << relation.value_bits) - u8(1)
    return (key & mask) > (known & mask) if relation.larger != 0 else (key & mask) < (known & mask)


@helper
def made_key(step: Record, terms: Array, registers: Array) -> Scalar:
    """A key from its terms."""
    key = u8(0)
    for t in range(step.key_0, step.key_0 + step.key_n):
        key |= u8(value(terms[t], registers)) << terms[t].base_shift
    return key


@helper
def bound(fact: Scalar, step: Record, in_index: bool, terms: Array, registers: Array) -> bool:
    """Put a fact's words into registers; whether those that are checked agree."""
    for t in range(step.bind_0, step.bind_0 + step.bind_n):
        shift = terms[t].index_shift if in_index else terms[t].base_shift
        registers[terms[t].register] = i8((fact >> shift) & terms[t].mask)
    for t in range(step.check_0, step.check_0 + step.check_n):
        shift = terms[t].index_shift if in_index else terms[t].base_shift
        if value(terms[t], registers) != i8((fact >> shift) & terms[t].mask):
            return False
    return True


@helper
def holds(step: Record, terms: Array, registers: Array) -> bool:
    """Whether a comparison of two words or ranks holds."""
    left = value(terms[step.key_0], registers)
    right = value(terms[step.key_0 + 1], registers)
    if step.extra == EQUAL:
        return left == right
    if step.extra == DIFFERENT:
        return left != right
    return left < right if step.extra == LESS else left <= right


@helper
def apart(left: Scalar, right: Scalar) -> bool:
    """Whether a difference does not fit into 64 bits."""
    return (right < 0 and left > MOST + right) or (right > 0 and left < LEAST + right)


@helper
def computed(step: Record, terms: Array, registers: Array, tops: Array) -> bool:
    """Compute into a register; False if the result is beyond what the machine can hold."""
    t = step.key_0
    left = value(terms[t], registers)
    right = value(terms[t + 1], registers)
    operation = step.extra
    result = i8(0)
    # Whether a result fits is found out beforehand: compilers take it that it always does.
    if operation == WORD:
        if apart(left, right):
            return False
        result = left - right
        if result < 0 or result >= terms[t + 2].constant:
            return False
        top = terms[t + 2].register
        tops[top] = max(tops[top], result)
    elif operation == RANK:
        result = i8(load(right, left))
    elif operation == ADD:
        if (right > 0 and left > MOST - right) or (right < 0 and left < LEAST - right):
            return False
        result = left + right
    elif operation == SUBTRACT:
        if apart(left, right):
            return False
        result = left - right
    elif operation == MULTIPLY:
        # The smallest number has no magnitude; what is near it is left to whole columns as well.
        if left == LEAST or right == LEAST:
            return False
        if left != 0 and abs(right) > MOST // abs(left):
            return False
        result = left * right
    else:
        if right == 0 or right == -1:
            return False
        quotient = left // right
        # Rounded down; toward zero is one more where signs differ and there is a remainder.
        if quotient < 0 and quotient * right != left:
            quotient += 1
        result = quotient if operation == DIVIDE else left - quotient * right
    registers[step.what] = result
    return True


@helper
def emitted(
    key: Scalar, head: Record, indexes: Array, fields: Array, runs: Array, facts: Array,
    owners: Array, bits: Array,
) -> bool:  # fmt: skip
    """Add a fact to a tail if it is new; False if there is no room for it."""
    own = indexes[head.index_0]
    if head.bits >= 0:
        word = head.bits + i8(key >> u8(6))
        bit = u8(1) << (key & u8(63))
        if bits[word] & bit != u8(0):
            return True
        known, _ = match_in_runs(own, key, runs)
        if not known:
            if head.count >= head.capacity:
                return False
            facts[head.tail + head.count] = key
            head.count += 1
        bits[word] |= bit
        return True
    group = key >> head.value_bits
    slot = slot_of(own, group, fields, facts, owners)
    if owners[slot] == u4(0):
        known, match = match_in_runs(own, group, runs)
        if known and (head.value_bits == u8(0) or not improves(key, match, head)):
            return True
    else:
        at = i8(owners[slot]) - 1
        if head.value_bits == u8(0) or not improves(key, facts[head.tail + at], head):
            return True
        if at >= head.end:
            facts[head.tail + at] = key
            return True
    if head.count >= head.capacity:
        return False
    facts[head.tail + head.count] = key
    head.count += 1
    owners[slot] = u4(head.count)
    return True


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
        link = i8(owners[slot_of(index, key, fields, facts, owners)]) - 1
        while link >= 0 and found < most:
            found += 1
            link = i8(links[index.chain + link]) - 1
    return found


@helper
def fewest(
    at: Scalar, steps: Array, terms: Array, indexes: Array, fields: Array, runs: Array,
    facts: Array, owners: Array, links: Array, registers: Array,
) -> Scalar:  # fmt: skip
    """Which of the lookups behind a step has the fewest matches."""
    most = i8(16)
    while True:
        best = i8(-1)
        least = most
        for i in range(steps[at].what):
            step = steps[at + 1 + i]
            key = made_key(step, terms, registers)
            index = indexes[step.what]
            found = matches_of(index, key, least, fields, runs, facts, owners, links)
            if found < least:
                best = i
                least = found
        if best >= 0:
            return best
        most <<= 4


@helper
def is_passed_over(at: Scalar, steps: Array, states: Array) -> bool:
    """Whether an atom that meets others has nothing to do: it does not propose, or has done so."""
    number = steps[at].extra - 1
    choice = at - steps[at].extra
    if number < steps[choice].what:
        return states[choice].at != number
    return states[choice].at == number - steps[choice].what


@helper
def fire(
    first: Scalar, fact: Scalar, steps: Array, terms: Array, relations: Array, indexes: Array,
    fields: Array, runs: Array, facts: Array, owners: Array, links: Array, bits: Array,
    registers: Array, states: Array, counters: Array, tops: Array,
) -> Scalar:  # fmt: skip
    """Run a rule for one fact. DONE, BEYOND, or the relation whose tail is full: fire again."""
    if not bound(fact, steps[first], False, terms, registers):
        return DONE
    at = first + 1
    down = True  # whether we come from above, or back from below for the next match
    while at > first:
        step = steps[at]
        passes = False
        if step.kind == EMIT:
            counters[0] += 1
            key = made_key(step, terms, registers)
            head = relations[step.what]
            if not emitted(key, head, indexes, fields, runs, facts, owners, bits):
                return step.what
        elif step.kind == CHOOSE:
            if down:
                states[at].at = fewest(
                    at, steps, terms, indexes, fields, runs, facts, owners, links, registers
                )
                passes = True
        elif step.kind == LOOKUP and step.extra != 0 and is_passed_over(at, steps, states):
            passes = down
        elif step.kind == LOOKUP:
            index = indexes[step.what]
            state = states[at]
            if down:
                state.key = made_key(step, terms, registers)
                state.at = 0
                state.stop_at = 0
                state.next_run = index.run_0
                state.link = -2
            key = state.key
            while not passes:
                if state.at < state.stop_at:
                    match = load(state.address, state.at)
                    if (match >> index.shift) != key:
                        state.stop_at = 0
                        continue
                    state.at += 1
                    passes = bound(match, step, True, terms, registers)
                elif state.next_run < index.run_n:
                    run = runs[state.next_run]
                    state.at, state.stop_at = find_start(run, index, key)
                    state.address = run.keys
                    state.next_run += 1
                elif index.chain < 0:
                    break
                else:
                    link = state.link
                    if link == -2:
                        link = i8(owners[slot_of(index, key, fields, facts, owners)]) - 1
                    if link < 0:
                        break
                    state.link = i8(links[index.chain + link]) - 1
                    passes = bound(facts[index.tail + link], step, False, terms, registers)
        elif not down:
            pass
        elif step.kind == COMPARE:
            passes = holds(step, terms, registers)
        elif step.kind == COMPUTE:
            if not computed(step, terms, registers, tops):
                return BEYOND
            passes = True
        elif step.extra != 0 and is_passed_over(at, steps, states):
            passes = True
        else:
            index = indexes[step.what]
            key = made_key(step, terms, registers)
            there, _ = match_in_runs(index, key, runs)
            if not there and index.chain >= 0:
                there = owners[slot_of(index, key, fields, facts, owners)] != u4(0)
            passes = there == (step.kind == EXISTS)
        at += 1 if passes else -1
        down = passes
    return DONE


@kernel((
    "i8", "i8[::1]", "i8[::1]", "i8[::1]", STEPS, TERMS, RELATIONS, INDEXES, FIELDS, RUNS,
    "u8[::1]", "u4[::1]", "u4[::1]", "u8[::1]", "i8[::1]", STATES, "i8[::1]", "i8[::1]", "i8[::1]",
))  # fmt: skip
def work(
    most: Array, members: Array, rules: Array, steps: Array, terms: Array, relations: Array,
    indexes: Array, fields: Array, runs: Array, facts: Array, owners: Array, links: Array,
    bits: Array, registers: Array, states: Array, counters: Array, tops: Array, stop: Array,
) -> Scalar:  # fmt: skip
    """Empty the worklist, round by round.

    Ends early when a round's delta is above most[0], when counters[1] has reached most[1] rounds
    or the tails most[2] facts after a round, or when stop[0] is set. `members` are the
    relations of the clique; `rules` are first steps. Called again, it goes on where it was.
    counters: 0 derivations, 1 rounds, 2 facts taken, 3 whether a round has begun.
    """
    while True:
        if counters[3] == 0:
            left = i8(0)
            held = i8(0)
            for m in range(members.size):
                relation = relations[members[m]]
                relation.end = relation.count
                left += relation.count - relation.taken
                held += relation.count
            if left == 0:
                return DONE
            if left > most[0] or counters[1] >= most[1] or held >= most[2]:
                return LARGE
            counters[3] = 1
        for m in range(members.size):
            relation = relations[members[m]]
            while relation.taken < relation.end:
                counters[2] += 1
                if (counters[2] & 1023) == 0 and stop[0] != 0:
                    return STOPPED
                # Enter it into the indexes. Firing again after a full tail finds it there.
                for index in range(relation.index_0 + 1, relation.index_n):
                    enter(relation.taken, indexes[index], fields, facts, owners, links)
                fact = facts[relation.tail + relation.taken]
                for r in range(relation.rule_0, relation.rule_n):
                    full = fire(
                        rules[r], fact, steps, terms, relations, indexes, fields, runs, facts,
                        owners, links, bits, registers, states, counters, tops,
                    )  # fmt: skip
                    if full != DONE:
                        return full
                relation.taken += 1
        counters[3] = 0
        counters[1] += 1


@kernel(("void", "i8", RELATIONS, INDEXES, FIELDS, "u8[::1]", "u4[::1]", "u4[::1]", "u8[::1]"))
def seed(
    number: Scalar, relations: Array, indexes: Array, fields: Array, facts: Array, owners: Array,
    links: Array, bits: Array,
) -> None:  # fmt: skip
    """Enter the facts of a tail into its tables, which are empty."""
    relation = relations[number]
    for fact in range(relation.count):
        if relation.bits >= 0:
            key = facts[relation.tail + fact]
            bits[relation.bits + i8(key >> u8(6))] |= u8(1) << (key & u8(63))
        else:
            enter(fact, indexes[relation.index_0], fields, facts, owners, links)
    for index in range(relation.index_0 + 1, relation.index_n):
        for fact in range(relation.taken):
            enter(fact, indexes[index], fields, facts, owners, links)
