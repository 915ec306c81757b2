"""The graph that relations step in: tuples of their stepping columns, and steps between them.

Every relation has a place for its tuples. A step leads from the place of one relation to that of
another, by its links, with a place between two links. Where a rule does not read all stepping
columns of its recursive atom, or wants some of them to have certain values, a step begins with
edges from the tuples that fit to what is read of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from caladan.analysis.core import Term
from caladan.columns.folded_index import stretches
from caladan.columns.layout import Mask, Words
from caladan.fixpoint.shapes.halves import sides_of, split_body
from caladan.fixpoint.shapes.inputs import ShapeInputs
from caladan.fixpoint.shapes.pairs import (
    Declined,
    Graph,
    NodePlace,
    Pairs,
    ShapeLimits,
    number_tuples,
    transpose,
    union,
)
from caladan.fixpoint.shapes.solutions import solved_side
from caladan.join.frontier import Bindings
from caladan.plan.recursion import EdgeRule, Link
from caladan.program import Constant, Expression, Variable, thresholds

StepColumns: TypeAlias = tuple[Words, ...]
Key: TypeAlias = str | tuple[int, int]  # a relation, or a step and which of its places between


@dataclass(frozen=True, slots=True)
class StepGraph:
    """The places of relations among `size` nodes, edges step by step, nodes of the exit facts.

    `entered` are the edges of entries, which lead from nodes for what is carried: `origins`.
    """

    places: Mapping[Key, NodePlace]
    size: int
    edges: list[Pairs]
    starts: Mapping[str, Words]
    entered: list[Pairs]
    origins: list[tuple[StepColumns, Words]]


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Tuples that belong to a place."""

    place: Key
    columns: StepColumns
    rows: int


def build_graph(
    stepping: Mapping[str, tuple[int, ...]],
    steps: Sequence[EdgeRule],
    exits: Mapping[str, StepColumns],
    inputs: ShapeInputs,
    limits: ShapeLimits,
    entries: Sequence[EdgeRule] = (),
) -> StepGraph:
    """The graph of some steps over the stepping columns of relations, and of entries to them."""
    starts = {
        name: _Part(name, tuple(exits[name][c] for c in columns), len(exits[name][0]))
        for name, columns in stepping.items()
    }
    most = sum(part.rows for part in starts.values())
    counted = limits.max_rounds is not None  # then a step is a round
    pairs = [_solve_links(i, step, stepping, inputs, most, counted) for i, step in enumerate(steps)]
    entering = [
        _solve_links(len(steps) + i, each, stepping, inputs, most, counted, is_entry=True)
        for i, each in enumerate(entries)
    ]
    every = [*pairs, *entering]
    limits.require_some(most + sum(left.rows for each in every for left, _ in each))
    parts = [*starts.values(), *(part for each in every for pair in each for part in pair)]
    places: dict[Key, NodePlace] = {}
    numbers: dict[_Part, Words] = {}
    mine = [part for part in parts if isinstance(part.place, str)]
    _number(mine, places, numbers, together=not all(step.links for step in steps))
    projections = [
        None if step.is_plain else _project(i, step, stepping, places, parts, numbers, inputs)
        for i, step in enumerate(steps)
    ]
    beside = [part for part in parts if not isinstance(part.place, str)]
    _number([*beside, *(p[1] for p in projections if p is not None)], places, numbers)
    begin = 0
    # Ranges are few if nodes are in the order of a walk: from relations that step, or from behind.
    for key in [*places] if steps else [*places][::-1]:
        places[key] = replace(places[key], begin=begin)
        begin += places[key].size
    if begin >= 1 << 31:
        raise Declined("its relations have too many values between them")

    def nodes(part: _Part) -> Words:
        return numbers[part] + np.uint32(places[part.place].begin)

    edges: list[Pairs] = []
    for step, each, projection in zip(steps, pairs, projections, strict=True):
        found = [(nodes(left), nodes(right)) for left, right in each]
        if projection is not None:
            begins, keys = projection
            found.append((begins + np.uint32(places[step.source].begin), nodes(keys)))
        if not step.links:
            found.append(_handed_on(step, places[step.source], places[step.target], inputs))
        edges.append(union(found))
    origins: list[tuple[StepColumns, Words]] = []
    for (first, _), *_ in entering:
        place = places[first.place]
        used = np.unique(numbers[first])
        origins.append((place.columns(used), used + np.uint32(place.begin)))
    return StepGraph(
        places,
        begin,
        edges,
        {name: nodes(part) for name, part in starts.items()},
        [(nodes(left), nodes(right)) for each in entering for left, right in each],
        origins,
    )


def _number(
    parts: Sequence[_Part],
    places: dict[Key, NodePlace],
    numbers: dict[_Part, Words],
    *,
    together: bool = False,
) -> None:
    """Number the tuples of each place, or of all together: the same tuple has the same number."""
    by_place: dict[Key, list[_Part]] = {}
    for part in parts:
        by_place.setdefault(part.place, []).append(part)
    for mine in [[*parts]] if together else by_place.values():
        columns = [tuple(np.ascontiguousarray(c) for c in part.columns) for part in mine]
        place, ids = number_tuples(columns, [part.rows for part in mine])
        places |= dict.fromkeys((part.place for part in mine), place)
        numbers |= zip(mine, ids, strict=True)


def _handed_on(step: EdgeRule, source: NodePlace, target: NodePlace, inputs: ShapeInputs) -> Pairs:
    """From each tuple of a place to the same one of another."""
    every = np.arange(source.size, dtype=np.uint32)
    if step.literals:
        named = zip(step.begin, source.columns(every), strict=True)
        columns = {t.name: words[None, :] for t, words in named if isinstance(t, Variable)}
        every = every[inputs.holds(step.rule, step.literals, columns, (1, len(every)))[0]]
    return every + np.uint32(source.begin), every + np.uint32(target.begin)


def _solve_links(
    number: int,
    step: EdgeRule,
    stepping: Mapping[str, tuple[int, ...]],
    inputs: ShapeInputs,
    most: int,
    counted: bool,
    *,
    is_entry: bool = False,
) -> list[tuple[_Part, _Part]]:
    """The pairs of each link, with the places that they lead from and to.

    A link that is a closure itself leads through the graph of that, instead of its facts.
    """
    found: list[tuple[_Part, _Part]] = []
    at: Key = step.source if step.is_plain and not is_entry else (number, 0)
    for i, link in enumerate(step.links):
        through = None if counted else split_closure(link, inputs)
        if through is None:
            columns, rows = _solve_link(link, inputs, most)
            left, right = columns[: link.left], columns[link.left :]
        else:
            inner: Key = (number, -1 - i)
            (before, begins), steps, (ends, right) = through
            found.append((_Part(at, before, len(begins)), _Part(inner, (begins,), len(begins))))
            found.append(
                (_Part(inner, steps[:1], len(steps[0])), _Part(inner, steps[1:], len(steps[0])))
            )
            at, left, rows = inner, (ends,), len(ends)
        to: Key = (number, i + 1)
        if i == len(step.links) - 1:
            to = step.target
            by_name = dict(zip(step.made, right, strict=True))
            right, exist = compute_head(step, stepping[step.target], by_name, rows, inputs)
            if not exist:
                left, right, rows = _none(left), _none(right), 0
        found.append((_Part(at, left, rows), _Part(to, right, rows)))
        at = to
    return found


def split_closure(
    link: Link, inputs: ShapeInputs
) -> tuple[tuple[StepColumns, Words], Pairs, tuple[Words, StepColumns]] | None:
    """A link that is a closure: tuples and the nodes they lead to, steps, nodes and tuples.

    Whatever else it reads has to do with one side of the closure only.
    """
    if link.rule is None:
        return None
    large = [a for a in link.rule.positive if inputs.layout(a) is not None]
    folded = inputs.layout(large[0]) if len(large) == 1 else None
    if folded is None or folded.graph is None:
        return None
    names = [a.name for a in link.rule.arguments if isinstance(a, Variable)]
    ends = {*names[: link.left]}, {*names[link.left :]}
    info = inputs.info(large[0].relation)
    body = split_body(link.rule, large[0], sides_of(folded), info, frozenset(names), large)
    if body is None or body.tests:
        return None
    sides = [solved_side(body.left, folded.first, inputs)]
    sides.append(solved_side(body.right, folded.second, inputs))
    (left, first), (right, second) = sides
    graph, is_turned = folded.graph, not ends[0] <= left.columns.keys()
    known = (right, left) if is_turned else (left, right)
    if not (ends[0] <= known[0].columns.keys() and ends[1] <= known[1].columns.keys()):
        return None
    size = 1 + int(max(first.max(initial=0), graph.exits[0].max(initial=0)))
    lists = Graph.of(*graph.exits, size)
    begin, end = lists.bounds[first], lists.bounds[first + np.uint32(1)]
    at = np.repeat(np.arange(left.rows), end - begin)
    columns = {n: left.columns[n][at] for n in left.columns} | dict(right.columns)
    before = tuple(columns[n] for n in names[: link.left])
    after = tuple(columns[n] for n in names[link.left :])
    starts, targets = lists.targets[stretches(begin, end)], second + np.uint32(graph.begin)
    if is_turned:
        return (before, targets), transpose(graph.steps), (starts, after)
    return (before, starts), graph.steps, (targets, after)


def _solve_link(link: Link, inputs: ShapeInputs, most: int) -> tuple[StepColumns, int]:
    if link.rule is None:
        return (), 1
    room = 4 * most + thresholds.now.shape_join if link.multiplies else None
    columns = inputs.solve(link.rule, room)
    return columns, len(columns[0])


def compute_head(
    step: EdgeRule,
    stepping: tuple[int, ...],
    by_name: Mapping[str, Words],
    rows: int,
    inputs: ShapeInputs,
) -> tuple[StepColumns, bool]:
    """The stepping columns of the head, with its constants; whether there are such words."""
    found: list[Words] = []
    for column, term in zip(stepping, step.end, strict=True):
        if isinstance(term, Variable):
            found.append(by_name[term.name])
        elif not isinstance(term, Constant):
            found.append(_compute_column(step, column, term, by_name, rows, inputs))
        elif (word := inputs.word(step.target, column, term.value)) is not None:
            found.append(np.full(rows, word, np.uint32))
        else:
            return tuple(np.empty(0, np.uint32) for _ in stepping), False
    return tuple(found), True


def _compute_column(
    step: EdgeRule,
    column: int,
    term: Expression,
    by_name: Mapping[str, Words],
    rows: int,
    inputs: ShapeInputs,
) -> Words:
    """What a column of the head is, for the solutions of the last link."""
    evaluator, domain = inputs.evaluator(step.rule, by_name), inputs.domain(step.target, column)
    try:
        return evaluator.words(term, Bindings(rows, by_name), domain)
    except ArithmeticError:
        raise Declined("a column of it cannot be computed for all values") from None


def _none(columns: StepColumns) -> StepColumns:
    return tuple(column[:0] for column in columns)


def _project(
    number: int,
    step: EdgeRule,
    stepping: Mapping[str, tuple[int, ...]],
    places: Mapping[Key, NodePlace],
    parts: Sequence[_Part],
    numbers: Mapping[_Part, Words],
    inputs: ShapeInputs,
) -> tuple[Words, _Part]:
    """The tuples that a step begins with, and what it reads of each."""
    mine = [numbers[part] for part in parts if part.place == step.source]
    nodes = np.unique(np.concatenate(mine))
    columns = places[step.source].columns(nodes)
    keep: Mask = np.ones(len(nodes), np.bool_)
    first: dict[str, Words] = {}
    for column, term, words in zip(stepping[step.source], step.begin, columns, strict=True):
        keep &= match_term(step, column, term, words, first, inputs)
    kept = tuple(first[name][keep] for name in step.read)
    return nodes[keep], _Part((number, 0), kept, int(np.count_nonzero(keep)))


def match_term(
    step: EdgeRule,
    column: int,
    term: Term,
    words: Words,
    first: dict[str, Words],
    inputs: ShapeInputs,
) -> Mask:
    """Which words fit a term of the pattern: a value, or what a variable had before."""
    if isinstance(term, Variable):
        known = first.setdefault(term.name, words)
        return known == words
    word = inputs.word(step.source, column, term.value)
    if word is None:
        return np.zeros(len(words), np.bool_)
    return words == np.uint32(word)
