"""The tiny-delta machine: the rules of a clique as integer tables, run fact by fact.

A round that finds a handful of facts costs a hundred microseconds when it is driven from Python.
This kernel takes a worklist instead: it takes the next fact that was found, runs every rule seeded
by its relation, tuple at a time, and appends what is new to the worklist. 0.3 µs a firing; for
large deltas whole columns are several times faster, so it returns when the worklist grows.

What is known of a relation is in its runs, read in place through their addresses, and in a tail of
new facts: keys in the base packing, a hash table to tell what is there, and for each index a hash
table of chains. A fact enters the indexes when it is taken from the worklist; so of two facts that
meet in a rule, the later one finds the earlier.

A relation of groups with a best value (mmin, mmax) has its value in the lowest bits of a key, and
the hash table is one of groups. A better value of a group is a new fact; the one before stays in
the worklist if its round has begun, and gives its place up otherwise.

Tables, one row each (the columns are named below):

    relations   where the tail of a relation stands, and its runs
    indexes     a relation by some columns: its runs in that order, its chains in the tail
    fields      how the lookup key of an index is made from a fact: shift, mask, shift in the key
    runs        address and length of the keys, address and length of the bounds
    steps       a rule: seed, then lookups, tests, arithmetic and a head, each with its terms
    terms       a word: a register or a constant, and its places in keys

Arithmetic goes by ranks: a computation reads ranks and leaves one in a register, `RANK` and
`WORD` go from words to ranks and back. The machine does only what is sure: a number that leaves 64
bits, a division by zero, a word that its domain or a key has no room for ends the work before the
fact is taken, and the round is done by whole columns, which know what to make of it.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import i4, i8, u4, u8
from numba.core import types
from numba.extending import intrinsic

from caladan.columns.kernels import helper, kernel

Array = Any
Scalar = Any  # numba tells signed and unsigned apart, Python does not

# Columns of `relations`.
TAIL, CAPACITY, COUNT, TAKEN, SLOTS, SLOT_MASK, INDEX_0, INDEX_N, RUN_0, RUN_N = range(10)
LEAD, END, VALUE_BITS, LARGER = range(10, 14)
# Columns of `indexes`.
OF, X_SLOTS, X_MASK, CHAIN, FIELD_0, FIELD_N, X_RUN_0, X_RUN_N, SHIFT, X_LEAD = range(10)
# Columns of `steps`.
KIND, WHAT, EXTRA, KEY_0, KEY_N, BIND_0, BIND_N, CHECK_0, CHECK_N = range(9)
# Kinds of steps.
SEED, LOOKUP, EXISTS, ABSENT, COMPARE, EMIT, COMPUTE = range(7)
# Columns of `terms`.
REGISTER, BASE_SHIFT, MASK, INDEX_SHIFT, CONSTANT = range(5)
# Columns of `runs`.
KEYS, KEYS_N, BOUNDS, BOUNDS_N = range(4)
# The range of 64 bits.
LEAST, MOST = -(2**63), 2**63 - 1
# Columns of the state of a step.
AT, STOP_AT, NEXT_RUN, ADDRESS, LINK, KEY = range(6)
# What `work` returns, besides the number of a relation whose tail is full.
DONE, LARGE, STOPPED, BEYOND = -1, -2, -3, -4
# Comparisons, by EXTRA.
EQUAL, DIFFERENT, LESS, LESS_EQUAL = range(4)
# Computations, by EXTRA. RANK reads a table of ranks; WORD leaves the distance from a base.
ADD, SUBTRACT, MULTIPLY, DIVIDE, REMAINDER, RANK, WORD = range(7)


def _load(_typing: Any, _address: Any, _index: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        offset = builder.shl(arguments[1], ir.Constant(ir.IntType(64), 3))
        pointer = builder.inttoptr(builder.add(arguments[0], offset), ir.IntType(64).as_pointer())
        return builder.load(pointer)

    return types.uint64(types.int64, types.int64), generate


# load(address, index): the 64 bits at an address, counted in units of 8 bytes.
load: Any = intrinsic(_load)


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
def find_start(runs: Array, run: Scalar, key: Scalar, shift: Scalar, lead: Scalar) -> Any:
    """Where the keys that match may start in a run, and where to stop looking."""
    start = i8(0)
    end = runs[run, KEYS_N]
    if runs[run, BOUNDS] != 0:
        word = i8(key >> u8(lead))
        if word + 1 >= runs[run, BOUNDS_N]:
            return i8(0), i8(0)
        start = i8(load(runs[run, BOUNDS], word))
        end = i8(load(runs[run, BOUNDS], word + 1))
        if lead == 0:
            return start, end
    return lower_bound_at(runs[run, KEYS], start, end, key << u8(shift)), end


@helper
def in_runs(
    first: Scalar, last: Scalar, key: Scalar, shift: Scalar, lead: Scalar, runs: Array
) -> bool:
    """Whether some run has a key that matches."""
    for run in range(first, last):
        start, end = find_start(runs, run, key, shift, lead)
        if start < end and (load(runs[run, KEYS], start) >> u8(shift)) == key:
            return True
    return False


@helper
def slot_for(base: Scalar, mask: Scalar, key: Scalar, held: Array, owners: Array) -> Scalar:
    """The slot of a key in a hash table, or the free one where it belongs."""
    at = i8(scrambled(key) & u8(mask))
    while owners[base + at] != u4(0) and held[base + at] != key:
        at = (at + 1) & mask
    return base + at


@helper
def value(term: Scalar, terms: Array, registers: Array) -> Scalar:
    """What a term stands for."""
    register = terms[term, REGISTER]
    return terms[term, CONSTANT] if register < 0 else registers[register]


@helper
def improves(key: Scalar, known: Scalar, bits: Scalar, larger: Scalar) -> bool:
    """Whether a key has a better value than another one of its group."""
    mask = (u8(1) << u8(bits)) - u8(1)
    return (key & mask) > (known & mask) if larger != 0 else (key & mask) < (known & mask)


@helper
def improves_runs(
    key: Scalar,
    first: Scalar,
    last: Scalar,
    bits: Scalar,
    larger: Scalar,
    lead: Scalar,
    runs: Array,
) -> bool:
    """Whether a key has a better value than its group has in the runs, if it is there."""
    group = key >> u8(bits)
    for run in range(first, last):
        start, end = find_start(runs, run, group, bits, lead)
        if start < end and (load(runs[run, KEYS], start) >> u8(bits)) == group:
            return improves(key, load(runs[run, KEYS], start), bits, larger)
    return True


@helper
def made_key(first: Scalar, count: Scalar, terms: Array, registers: Array) -> Scalar:
    """A key from its terms."""
    key = u8(0)
    for t in range(first, first + count):
        key |= u8(value(t, terms, registers)) << u8(terms[t, BASE_SHIFT])
    return key


@helper
def bound(
    fact: Scalar, step: Scalar, place: Scalar, steps: Array, terms: Array, registers: Array
) -> bool:
    """Put a fact's words into registers; whether those that are checked agree."""
    first = steps[step, BIND_0]
    for t in range(first, first + steps[step, BIND_N]):
        registers[terms[t, REGISTER]] = i8((fact >> u8(terms[t, place])) & u8(terms[t, MASK]))
    first = steps[step, CHECK_0]
    for t in range(first, first + steps[step, CHECK_N]):
        if value(t, terms, registers) != i8((fact >> u8(terms[t, place])) & u8(terms[t, MASK])):
            return False
    return True


@helper
def holds(step: Scalar, steps: Array, terms: Array, registers: Array) -> bool:
    """Whether a comparison of two words or ranks holds."""
    left = value(steps[step, KEY_0], terms, registers)
    right = value(steps[step, KEY_0] + 1, terms, registers)
    comparison = steps[step, EXTRA]
    if comparison == EQUAL:
        return left == right
    if comparison == DIFFERENT:
        return left != right
    return left < right if comparison == LESS else left <= right


@helper
def apart(left: Scalar, right: Scalar) -> bool:
    """Whether a difference does not fit into 64 bits."""
    return (right < 0 and left > MOST + right) or (right > 0 and left < LEAST + right)


@helper
def computed(step: Scalar, steps: Array, terms: Array, registers: Array, tops: Array) -> bool:
    """Compute into a register; False if the result is beyond what the machine can hold."""
    t = steps[step, KEY_0]
    left = value(t, terms, registers)
    right = value(t + 1, terms, registers)
    operation = steps[step, EXTRA]
    result = i8(0)
    # Whether a result fits is found out beforehand: compilers take it that it always does.
    if operation == WORD:
        if apart(left, right):
            return False
        result = left - right
        if result < 0 or result >= terms[t + 2, CONSTANT]:
            return False
        top = terms[t + 2, REGISTER]
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
    registers[steps[step, WHAT]] = result
    return True


@helper
def fire(
    first: Scalar, relation: Scalar, fact: Scalar, steps: Array, terms: Array, relations: Array,
    indexes: Array, runs: Array, facts: Array, held: Array, owners: Array, chain_held: Array,
    chain_owners: Array, links: Array, registers: Array, states: Array, counters: Array,
    tops: Array,
) -> Scalar:  # fmt: skip
    """Run a rule for one fact. DONE, BEYOND, or the relation whose tail is full: fire again."""
    if not bound(
        facts[relations[relation, TAIL] + fact], first, BASE_SHIFT, steps, terms, registers
    ):
        return DONE
    step = first + 1
    down = True  # whether we come from above, or back from below for the next match
    while step > first:
        kind = steps[step, KIND]
        if kind == EMIT:
            counters[0] += 1
            head = steps[step, WHAT]
            key = made_key(steps[step, KEY_0], steps[step, KEY_N], terms, registers)
            bits = relations[head, VALUE_BITS]
            tail = relations[head, TAIL]
            slot = slot_for(
                relations[head, SLOTS], relations[head, SLOT_MASK], key >> u8(bits), held, owners
            )
            is_new = False
            if owners[slot] == u4(0):
                if bits == 0:
                    is_new = not in_runs(
                        relations[head, RUN_0], relations[head, RUN_N], key, 0,
                        relations[head, LEAD], runs,
                    )  # fmt: skip
                else:
                    is_new = improves_runs(
                        key, relations[head, RUN_0], relations[head, RUN_N], bits,
                        relations[head, LARGER], relations[head, LEAD], runs,
                    )  # fmt: skip
            elif bits != 0:
                at = i8(owners[slot]) - 1
                if improves(key, facts[tail + at], bits, relations[head, LARGER]):
                    is_new = at < relations[head, END]
                    if not is_new:
                        facts[tail + at] = key
            if is_new:
                count = relations[head, COUNT]
                if count >= relations[head, CAPACITY]:
                    return head
                held[slot] = key >> u8(bits)
                owners[slot] = u4(count + 1)
                facts[tail + count] = key
                relations[head, COUNT] = count + 1
            step -= 1
            down = False
        elif kind == LOOKUP:
            index = steps[step, WHAT]
            shift = indexes[index, SHIFT]
            state = states[step]
            if down:
                key = made_key(steps[step, KEY_0], steps[step, KEY_N], terms, registers)
                at = i8(0)
                stop_at = i8(0)
                next_run = indexes[index, X_RUN_0]
                address = i8(0)
                link = i8(-2)
            else:
                key = u8(state[KEY])
                at = state[AT]
                stop_at = state[STOP_AT]
                next_run = state[NEXT_RUN]
                address = state[ADDRESS]
                link = state[LINK]
            found = False
            while not found:
                if at < stop_at:
                    match = load(address, at)
                    if (match >> u8(shift)) != key:
                        stop_at = i8(0)
                        continue
                    at += 1
                    found = bound(match, step, INDEX_SHIFT, steps, terms, registers)
                elif next_run < indexes[index, X_RUN_N]:
                    at, stop_at = find_start(runs, next_run, key, shift, indexes[index, X_LEAD])
                    address = runs[next_run, KEYS]
                    next_run += 1
                else:
                    if indexes[index, CHAIN] < 0:
                        break
                    if link == -2:
                        slot = slot_for(
                            indexes[index, X_SLOTS], indexes[index, X_MASK], key,
                            chain_held, chain_owners,
                        )  # fmt: skip
                        link = i8(chain_owners[slot]) - 1
                    if link < 0:
                        break
                    match = facts[relations[indexes[index, OF], TAIL] + link]
                    link = i8(links[indexes[index, CHAIN] + link]) - 1
                    found = bound(match, step, BASE_SHIFT, steps, terms, registers)
            if found:
                state[KEY] = i8(key)
                state[AT] = at
                state[STOP_AT] = stop_at
                state[NEXT_RUN] = next_run
                state[ADDRESS] = address
                state[LINK] = link
                step += 1
                down = True
            else:
                step -= 1
                down = False
        else:
            passes = False
            if down:
                if kind == COMPARE:
                    passes = holds(step, steps, terms, registers)
                elif kind == COMPUTE:
                    if not computed(step, steps, terms, registers, tops):
                        return BEYOND
                    passes = True
                else:
                    index = steps[step, WHAT]
                    key = made_key(steps[step, KEY_0], steps[step, KEY_N], terms, registers)
                    there = in_runs(
                        indexes[index, X_RUN_0], indexes[index, X_RUN_N], key,
                        indexes[index, SHIFT], indexes[index, X_LEAD], runs,
                    )  # fmt: skip
                    if not there and indexes[index, CHAIN] >= 0:
                        slot = slot_for(
                            indexes[index, X_SLOTS], indexes[index, X_MASK], key,
                            chain_held, chain_owners,
                        )  # fmt: skip
                        there = chain_owners[slot] != u4(0)
                    passes = there == (kind == EXISTS)
            if passes:
                step += 1
                down = True
            else:
                step -= 1
                down = False
    return DONE


@kernel(
    "i8(i8[::1], i8[::1], i8[::1], i8[::1], i8[:,::1], i8[:,::1], i8[:,::1], i8[:,::1], "
    "i8[:,::1], i8[:,::1], u8[::1], u8[::1], u4[::1], u8[::1], u4[::1], u4[::1], i8[::1], "
    "i8[:,::1], i8[::1], i8[::1], i8[::1])"
)
def work(
    most: Array, members: Array, rules: Array, rule_bounds: Array,
    steps: Array, terms: Array, relations: Array, indexes: Array, fields: Array, runs: Array,
    facts: Array, held: Array, owners: Array, chain_held: Array, chain_owners: Array, links: Array,
    registers: Array, states: Array, counters: Array, tops: Array, stop: Array,
) -> Scalar:  # fmt: skip
    """Empty the worklist, round by round.

    Ends early when a round's delta is above most[0], when counters[1] has reached most[1] rounds
    or the tails most[2] facts after a round, or when stop[0] is set. `members` are the
    relations of the clique; members[m] seeds rules[rule_bounds[m]:rule_bounds[m + 1]].
    counters: 0 derivations, 1 rounds, 2 facts taken.
    """
    while True:
        left = 0
        held_facts = 0
        for m in range(members.size):
            relation = members[m]
            relations[relation, END] = relations[relation, COUNT]
            left += relations[relation, COUNT] - relations[relation, TAKEN]
            held_facts += relations[relation, COUNT]
        if left == 0:
            return DONE
        if left > most[0] or counters[1] >= most[1] or held_facts >= most[2]:
            return LARGE
        for m in range(members.size):
            relation = members[m]
            while relations[relation, TAKEN] < relations[relation, END]:
                fact = relations[relation, TAKEN]
                counters[2] += 1
                if (counters[2] & 1023) == 0 and stop[0] != 0:
                    return STOPPED
                # Enter it into the indexes. Firing again after a full tail finds it there.
                key = facts[relations[relation, TAIL] + fact]
                for index in range(relations[relation, INDEX_0], relations[relation, INDEX_N]):
                    lookup = u8(0)
                    first = indexes[index, FIELD_0]
                    for f in range(first, first + indexes[index, FIELD_N]):
                        word = (key >> u8(fields[f, 0])) & u8(fields[f, 1])
                        lookup |= word << u8(fields[f, 2])
                    slot = slot_for(
                        indexes[index, X_SLOTS], indexes[index, X_MASK], lookup,
                        chain_held, chain_owners,
                    )  # fmt: skip
                    if i4(chain_owners[slot]) != i4(fact + 1):
                        links[indexes[index, CHAIN] + fact] = chain_owners[slot]
                        chain_held[slot] = lookup
                        chain_owners[slot] = u4(fact + 1)
                for r in range(rule_bounds[m], rule_bounds[m + 1]):
                    full = fire(
                        rules[r], relation, fact, steps, terms, relations, indexes, runs, facts,
                        held, owners, chain_held, chain_owners, links, registers, states, counters,
                        tops,
                    )  # fmt: skip
                    if full != DONE:
                        return full
                relations[relation, TAKEN] = fact + 1
        counters[1] += 1


@kernel("void(i8, u8[::1], i8[:,::1], u8[::1], u8[::1], u4[::1])")
def seed(
    relation: Scalar, keys: Array, relations: Array, facts: Array, held: Array, owners: Array
) -> None:
    """Start a relation's tail with a delta; the tail is empty, and has room."""
    bits = u8(relations[relation, VALUE_BITS])
    for i in range(keys.size):
        slot = slot_for(
            relations[relation, SLOTS],
            relations[relation, SLOT_MASK],
            keys[i] >> bits,
            held,
            owners,
        )
        held[slot] = keys[i] >> bits
        owners[slot] = u4(i + 1)
        facts[relations[relation, TAIL] + i] = keys[i]
    relations[relation, COUNT] = keys.size
    relations[relation, TAKEN] = 0
