"""The tiny-delta machine: the rules of a clique as integer tables, run fact by fact.

A round that finds a handful of facts costs a hundred microseconds when it is driven from Python.
This kernel takes a worklist instead: it takes the next fact that was found, runs every rule seeded
by its relation, tuple at a time, and appends what is new to the worklist. 0.3 µs a firing; for
large deltas whole columns are several times faster, so it returns when the worklist grows. What it
reads and writes are tables (machine.py).

A relation of groups with a best value (mmin, mmax) has its value in the lowest bits of a key, and
the hash table is one of groups. A better value of a group is a new fact; the one before stays in
the worklist if its round has begun, and gives its place up otherwise.

Atoms that meet in a variable are a `CHOOSE`, a lookup of each, and a test of each: the one that has
the fewest matches proposes, its test and the lookups of the others are passed over. `extra` of such
steps is their distance from the `CHOOSE`. A test of an atom that has more to bind is a lookup, too.

Arithmetic goes by ranks: a computation reads ranks and leaves one in a register, `RANK` and
`WORD` go from words to ranks and back. The machine does only what is sure: a number that leaves 64
bits, a division by zero, a word that its domain or a key has no room for ends the work before the
fact is taken, and the round is done by whole columns, which know what to make of it.
"""

from __future__ import annotations

from typing import Any

from numpy import int64 as i8, uint32 as u4, uint64 as u8

from caladan.columns.kernels import helper, kernel
from caladan.columns.kernels.machine import (
    ADD,
    BEYOND,
    CHOOSE,
    COMPARE,
    COMPUTE,
    DIFFERENT,
    DIVIDE,
    DONE,
    EMIT,
    EQUAL,
    EXISTS,
    FIELDS,
    INDEXES,
    LARGE,
    LEAST,
    LESS,
    LOOKUP,
    MOST,
    MULTIPLY,
    RANK,
    RELATIONS,
    RUNS,
    STATES,
    STEPS,
    STOPPED,
    SUBTRACT,
    TERMS,
    WORD,
    enter,
    find_start,
    load,
    match_in_runs,
    matches_of,
    tail_slot,
)

Array = Any
Record = Any
Scalar = Any  # numba tells signed and unsigned apart, Python does not


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
def compute(step: Record, terms: Array, registers: Array, tops: Array) -> bool:
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
def emit(
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
    slot = tail_slot(own, group, fields, facts, owners)
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
            if not emit(key, head, indexes, fields, runs, facts, owners, bits):
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
                        link = i8(owners[tail_slot(index, key, fields, facts, owners)]) - 1
                    if link < 0:
                        break
                    state.link = i8(links[index.chain + link]) - 1
                    passes = bound(facts[index.tail + link], step, False, terms, registers)
        elif not down:
            pass
        elif step.kind == COMPARE:
            passes = holds(step, terms, registers)
        elif step.kind == COMPUTE:
            if not compute(step, terms, registers, tops):
                return BEYOND
            passes = True
        elif step.extra != 0 and is_passed_over(at, steps, states):
            passes = True
        else:
            index = indexes[step.what]
            key = made_key(step, terms, registers)
            there, _ = match_in_runs(index, key, runs)
            if not there and index.chain >= 0:
                there = owners[tail_slot(index, key, fields, facts, owners)] != u4(0)
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
