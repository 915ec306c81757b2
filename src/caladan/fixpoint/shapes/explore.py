"""The graph that relations step in, where nobody can tell its nodes without going there.

    p(X, Z, N + 1) <- p(X, Y, N), arc(Y, Z), N < 20      what it makes is computed from what it left
    p(X, K, Z) <- p(X, K, Y), arc(Y, Z), q(K)            … or stays, and is in no other atom

The clique without what it carries is gone through in rounds: from the tuples of the exit facts to
those that some source may reach, each once, with an edge for every solution of a rule. The atoms of
a rule are solved once, and looked up by what it reads of a tuple.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from caladan.columns.folded_index import stretches
from caladan.columns.interner import ABSENT, Tuples
from caladan.columns.layout import Counts, Words, concatenate
from caladan.fixpoint.shapes.inputs import ShapeInputs
from caladan.fixpoint.shapes.pairs import NO_PAIRS, Declined, NodePlace, Pairs, ShapeLimits, union
from caladan.fixpoint.shapes.steps import (
    Key,
    StepColumns,
    StepGraph,
    build_graph,
    compute_head,
    match_term,
)
from caladan.plan.recursion import EdgeRule
from caladan.program import Variable, thresholds

_MANY: Final = "its steps lead to many more tuples than it has facts"
_UNREAD: Final = "a step has atoms that nothing is read of"


def graph_of(
    stepping: Mapping[str, tuple[int, ...]],
    steps: Sequence[EdgeRule],
    exits: Mapping[str, StepColumns],
    inputs: ShapeInputs,
    limits: ShapeLimits,
    entries: Sequence[EdgeRule] = (),
) -> StepGraph:
    """The graph of some steps over the stepping columns of relations, and of entries to them."""
    if any(step.explores for step in steps):
        return explore(stepping, steps, exits, inputs, limits)
    return build_graph(stepping, steps, exits, inputs, limits, entries)


def explore(
    stepping: Mapping[str, tuple[int, ...]],
    steps: Sequence[EdgeRule],
    exits: Mapping[str, Sequence[Words] | Mapping[int, Words]],
    inputs: ShapeInputs,
    limits: ShapeLimits,
    *,
    together: bool = False,
) -> StepGraph:
    """The graph of some steps over what exit facts lead to.

    With relations `together` they have one place: whatever is in one of them is in all.
    """
    room = {name: next(iter(stepping)) if together else name for name in stepping}
    tuples: dict[Key, Tuples] = {room[name]: Tuples(len(each)) for name, each in stepping.items()}
    tuples |= {(i, 1): Tuples(len(s.middle)) for i, s in enumerate(steps) if s.middle}
    starts: dict[str, Words] = {}
    found: dict[str, list[StepColumns]] = {name: [] for name in room.values()}
    for name, each in stepping.items():
        columns = tuple(np.ascontiguousarray(exits[name][c]) for c in each)
        starts[name], new = tuples[room[name]].ids(columns, len(columns[0]))
        found[room[name]].append(tuple(column[new] for column in columns))
    ways = [_Way(step, stepping[step.source], inputs) for step in steps]
    facts = sum(len(each) for each in starts.values()) + sum(way.rows for way in ways)
    limits.require_some(facts)
    most = 128 * facts + thresholds.now.shape_join
    edges: list[list[Pairs]] = [[] for _ in steps]
    inner: list[list[Pairs]] = [[] for _ in steps]
    rounds = 0
    while any(found.values()):
        limits.check()
        rounds += 1
        if rounds > thresholds.now.shape_rounds or sum(map(len, tuples.values())) > most:
            raise Declined(_MANY)
        frontier = {name: concatenate(iter(found[name]), len(stepping[name])) for name in found}
        first = {name: len(tuples[name]) - len(frontier[name][0]) for name in found}
        found = {name: [] for name in found}
        for number, (step, way) in enumerate(zip(steps, ways, strict=True)):
            source, target = room[step.source], room[step.target]
            at, by_name = way.solutions(frontier[source], most)
            made, exist = compute_head(step, stepping[step.target], by_name, len(at), inputs)
            if not exist or not len(at):
                continue
            to, new = tuples[target].ids(made, len(at))
            if len(new):
                found[target].append(tuple(column[new] for column in made))
            begin = (at + first[source]).astype(np.uint32)
            if step.middle:
                middle = [by_name[name] for name in step.middle]
                between, _ = tuples[number, 1].ids(middle, len(at))
                inner[number].append((begin, between))
                begin = between
            edges[number].append((begin, to))
    places: dict[Key, NodePlace] = {}
    begin = 0
    for key, each in tuples.items():
        places[key] = NodePlace(tuple(each.columns()), len(each), begin)
        begin += len(each)
    places |= {name: places[room[name]] for name in stepping}
    if begin >= 1 << 31:
        raise Declined("its relations have too many values between them")

    def shifted(pairs: Sequence[Pairs], source: Key, target: Key) -> list[Pairs]:
        one, other = (np.uint32(places[key].begin) for key in (source, target))
        return [(first + one, second + other) for first, second in pairs]

    every: list[Pairs] = []
    for number, step in enumerate(steps):
        last: Key = (number, 1) if step.middle else step.source
        parts = shifted(edges[number], last, step.target)
        parts += shifted(inner[number], step.source, last)
        every.append(union([NO_PAIRS, *parts]))  # each once
    begins = {name: starts[name] + np.uint32(places[name].begin) for name in stepping}
    return StepGraph(places, begin, every, begins, [], [])


class _Way:
    """A step, with the solutions of its atoms by what it reads of a tuple."""

    def __init__(self, step: EdgeRule, stepping: tuple[int, ...], inputs: ShapeInputs) -> None:
        self._step, self._stepping, self._inputs = step, stepping, inputs
        rule, self._late = step.atoms
        if rule is not None and not rule.arguments:
            raise Declined(_UNREAD)
        self.rows = 0
        self._names: list[str] = []
        self._columns: StepColumns = ()
        if rule is None:
            return
        self._columns = inputs.solve(rule)
        self.rows = len(self._columns[0])
        self._names = [a.name for a in rule.arguments if isinstance(a, Variable)]
        self._keys = [name for name in self._names if name in step.read]
        self._tuples = Tuples(len(self._keys))
        ids, _ = self._tuples.ids(self._columns[: len(self._keys)], self.rows)
        order = np.argsort(ids, kind="stable")
        self._columns = tuple(column[order] for column in self._columns)
        self._bounds: Counts = np.searchsorted(ids[order], np.arange(len(self._tuples) + 1))

    def solutions(self, given: StepColumns, most: int) -> tuple[Counts, dict[str, Words]]:
        """Which of some tuples the step leaves, and the variables of each solution."""
        step, inputs = self._step, self._inputs
        fits = np.ones(len(given[0]), np.bool_)
        by_name: dict[str, Words] = {}
        for column, term, words in zip(self._stepping, step.begin, given, strict=True):
            fits &= match_term(step, column, term, words, by_name, inputs)
        at = np.flatnonzero(fits)
        by_name = {name: words[at] for name, words in by_name.items()}
        if self._names:
            keys = self._tuples.find([by_name[name] for name in self._keys], len(at))
            some = np.flatnonzero(keys != ABSENT)
            begin, end = self._bounds[keys[some]], self._bounds[keys[some] + np.uint32(1)]
            if int((end - begin).sum()) > most:
                raise Declined(_MANY)
            rows = np.repeat(some, end - begin)
            places = stretches(begin, end)
            at = at[rows]
            by_name = {name: words[rows] for name, words in by_name.items()}
            joined = zip(self._names, self._columns, strict=True)
            by_name |= {name: words[places] for name, words in joined}
        if self._late:
            columns = {name: words[None, :] for name, words in by_name.items()}
            held = inputs.holds(step.rule, self._late, columns, (1, len(at)))[0]
            at = at[held]
            by_name = {name: words[held] for name, words in by_name.items()}
        return at, by_name
