"""Several rules over the same rows and columns: a matrix of bits for each relation.

Where rules step the two sides of a relation by themselves, exchange or join them, or test both,
there are no classes of words that serve all: every tuple is a row of bits, and a test is a matrix
as well, of what may be. `stepped_grid` makes tables of rules for kernels/grid.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from caladan.columns.folded import Fold
from caladan.columns.folded_index import NONE
from caladan.columns.kernels.bits import set_bits
from caladan.columns.kernels.blocks import WORDS, drain_rows
from caladan.columns.kernels.graph import components
from caladan.columns.kernels.grid import (
    APART,
    ARRIVING,
    CROSS,
    JOIN,
    KEEPS,
    KIND,
    LEAVING,
    SECOND,
    SOURCE,
    STAY,
    STEP,
    TARGET,
    close_columns,
    step_grid,
)
from caladan.columns.layout import Mask, Words
from caladan.columns.matrices import BitRows
from caladan.fixpoint.shapes.blocks import ALL, BLOCK, Bits, PlaceTest
from caladan.fixpoint.shapes.pairs import (
    NO_PAIRS,
    Declined,
    Graph,
    NodePlace,
    Pairs,
    ShapeLimits,
    extent,
    transpose,
    union,
)
from caladan.program import thresholds


@dataclass(frozen=True, slots=True)
class GridRule:
    """A rule: pairs (A, X) and (B, Y), None where a side stays as it is; numbers of relations.

    One that keeps rows and columns `apart` derives no (X, X); tests are of what it leaves, and
    arrives at. Of rows that stay, it applies to those that it `may`.
    """

    left: Pairs | None
    right: Pairs | None
    source: int
    target: int
    second: int | None = None
    crosses: bool = False
    apart: bool = False
    leaving: tuple[PlaceTest, ...] = ()
    arriving: tuple[PlaceTest, ...] = ()
    may: Mask | None = None

    @property
    def is_plain(self) -> bool:
        """Whether nothing but the pairs says what it derives, and where."""
        return not (self.is_tested or self.crosses) and self.second is None and self.may is None

    @property
    def is_tested(self) -> bool:
        """Whether it does not derive all that it leads to."""
        return bool(self.apart or self.leaving or self.arriving)

    @property
    def kind(self) -> int:
        """What the kernel does by it."""
        if self.crosses or self.second is not None:
            return CROSS if self.crosses else JOIN
        return STAY if self.left is None and self.source == self.target else STEP


@dataclass(frozen=True, slots=True)
class Grid:
    """The places of rows and columns, the same for all relations; exit pairs by relation; rules."""

    rows: NodePlace
    columns: NodePlace
    exits: list[Pairs]
    rules: list[GridRule]

    def words(self) -> tuple[Words, Words]:
        """The words of all rows and columns, columns in the order that steps lead in."""
        rows, columns = (
            side_words(np.concatenate([pair[i] for pair in self.exits]), pairs)
            for i, pairs in enumerate(self.pairs)
        )
        if any(rule.kind in (CROSS, JOIN) for rule in self.rules):
            rows = columns = _in_order(np.union1d(rows, columns), self.pairs[1])
            return rows, columns
        return rows, _in_order(columns, self.pairs[1])

    @property
    def pairs(self) -> tuple[list[Pairs | None], list[Pairs | None]]:
        """What rules step the two sides by."""
        return [rule.left for rule in self.rules], [rule.right for rule in self.rules]


def stepped_grid(grid: Grid, limits: ShapeLimits) -> list[BitRows] | None:
    """What several rules derive together, or rules with tests; every word is a row or a column.

    A matrix for each relation. None if they would not fit the budget.
    """
    limits.check()
    exits = grid.exits
    # Arrays below are as long as the largest word.
    stepped = (pairs for side in grid.pairs for pairs in side if pairs is not None)
    limits.require_close(*(end for pairs in (*exits, *stepped) for end in pairs))
    row_words, column_words = grid.words()
    words = (len(column_words) + 63) // 64
    tested = sum(bool(tests) for r in grid.rules for tests in (r.leaving, r.arriving))
    room = limits.budget - (2 * len(exits) + tested) * len(row_words) * words * 8
    if room < 0:
        return None
    require_dense(union(exits), *grid.pairs, len(row_words) * words)
    rows, columns = _singles(row_words), _singles(column_words)
    size = rows.count
    ends = np.zeros((len(exits), len(column_words), words), np.uint64)
    closes = np.zeros((len(exits), size), np.bool_)
    rules = list(grid.rules)
    for number in range(len(exits)):
        mine = _find_closed(grid.rules, number)
        room -= len(column_words) * words * 8 * bool(mine)
        if mine and len(mine) < len(rules) and room >= 0:
            _close(mine, columns, ends[number], limits)
            closes[number] = True if mine[0].may is None else mine[0].may[row_words]
            rules = [rule for rule in rules if all(rule is not each for each in mine)]
    bits = np.zeros((len(exits) * size, words), np.uint64)
    for number, (first, second) in enumerate(exits):
        part = bits[number * size : (number + 1) * size]
        set_bits(part, rows.class_of[first], columns.class_of[second])
    lefts = [_within(rows, (row_words, row_words) if r.left is None else r.left) for r in rules]
    rights = [(column_words, column_words) if r.right is None else r.right for r in rules]
    fan = [_within(columns, pairs) for pairs in rights]
    back = [_within(columns, transpose(pairs)) for pairs in rights]
    masks = [
        _may_be(tests, row_words, column_words, limits)
        for rule in rules
        for tests in (rule.leaving, rule.arriving)
        if tests
    ]
    every = np.ones(size, np.bool_)
    applies = [every if rule.may is None else rule.may[row_words] for rule in rules]
    firsts = [np.cumsum([0, *(len(g.targets) for g in some)])[:-1] for some in (lefts, fan)]
    done = step_grid(
        _table(rules), np.stack(applies), size, np.stack(firsts, axis=1),
        _row_order(rules, lefts, exits, rows), _share_columns(grid, row_words, column_words),
        *_together(lefts), *_together(fan), *_together(back), ends, closes,
        np.stack(masks) if masks else np.zeros((0, size, words), np.uint64),
        bits, bits.copy(), limits.stop,
    )  # fmt: skip
    limits.check()
    assert done >= 0
    parts = [bits[i * size : (i + 1) * size] for i in range(len(exits))]
    return [BitRows.of(rows, columns, part) for part in parts]


def _table(rules: Sequence[GridRule]) -> NDArray[np.int64]:
    """Rules as the kernel reads them; masks are numbered in the order of their tests."""
    table = np.full((len(rules), 8), -1, np.int64)
    masks = 0
    for line, rule in zip(table, rules, strict=True):
        line[KIND], line[SOURCE], line[TARGET] = rule.kind, rule.source, rule.target
        line[SECOND] = -1 if rule.second is None else rule.second
        line[APART], line[KEEPS] = rule.apart, rule.right is None
        for end, tests in ((LEAVING, rule.leaving), (ARRIVING, rule.arriving)):
            if tests:
                line[end] = masks
                masks += 1
    return table


def _find_closed(rules: Sequence[GridRule], relation: int) -> list[GridRule]:
    """The rules that leave rows of a relation where they are, if they do the same for each row."""
    mine = [rule for rule in rules if rule.kind == STAY and rule.source == relation]
    if any(rule.is_tested or not _same(rule.may, mine[0].may) for rule in mine):
        return []
    return mine


def _same(one: Mask | None, other: Mask | None) -> bool:
    if one is None or other is None:
        return one is other
    return bool(np.array_equal(one, other))


def _close(rules: Sequence[GridRule], columns: Fold, ends: Bits, limits: ShapeLimits) -> None:
    """Where columns lead to by rules that leave rows as they are."""
    graph = _within(columns, union([NO_PAIRS, *(rule.right for rule in rules if rule.right)]))
    component = np.empty(graph.nodes, np.uint32)
    components(graph.bounds, graph.targets, component)
    order = np.argsort(component, kind="stable").astype(np.uint32)
    close_columns(graph.bounds, graph.targets, order, component, ends, limits.stop)
    limits.check()


def _row_order(
    rules: Sequence[GridRule], lefts: Sequence[Graph], exits: Sequence[Pairs], rows: Fold
) -> Words:
    """The rows of all relations, so that rules lead from earlier to later ones, if they can."""
    size = rows.count
    edges: list[Pairs] = []
    for rule, graph in zip(rules, lefts, strict=True):
        if rule.second is not None:  # a row receives those that its columns lead to
            one, other = exits[rule.source]
            begin, end = rows.class_of[other], rows.class_of[one]
            edges.append((begin + np.uint32(rule.second * size), end))
        else:
            begin = np.repeat(np.arange(size, dtype=np.uint32), np.diff(graph.bounds))
            edges.append((begin + np.uint32(rule.source * size), graph.targets))
        edges[-1] = edges[-1][0], edges[-1][1] + np.uint32(rule.target * size)
    graph = Graph.of(*union(edges), size * len(exits))
    component = np.empty(graph.nodes, np.uint32)
    components(graph.bounds, graph.targets, component)
    return np.argsort(component, kind="stable")[::-1].astype(np.uint32)


def _share_columns(grid: Grid, row_words: Words, column_words: Words) -> NDArray[np.int64]:
    """The column that has the same word as each row, -1 if there is none."""
    same = np.full(len(row_words), -1, np.int64)
    (own, *_) = grid.rows.columns(row_words)
    (others, *_) = grid.columns.columns(column_words)
    # Words of a place may be far apart, so no array is indexed by them.
    order = np.argsort(others)
    at = np.searchsorted(others, own, sorter=order)
    inside = np.flatnonzero(at < len(order))
    found = order[at[inside]]
    equal = others[found] == own[inside]
    same[inside[equal]] = found[equal]
    return same


def require_dense(
    exits: Pairs, lefts: Sequence[Pairs | None], rights: Sequence[Pairs | None], words: int
) -> None:
    """Decline if a matrix of so many words is all but empty: it is gone through, facts or not.

    A fact leads from what one exit fact is connected with to what it is connected with too, so
    there are no more of them than pairs within parts that nothing connects.
    """
    left, right = ([each for each in side if each is not None] for side in (lefts, rights))
    if words < thresholds.now.shape_matrix * (
        len(exits[0]) + sum(len(first) for first, _ in (*left, *right))
    ):
        return
    shift = np.uint32(extent(exits[0], *(column for pairs in left for column in pairs)))
    pairs = [(exits[0], exits[1] + shift), *left, *((a + shift, b + shift) for a, b in right)]
    size = extent(*(column for each in pairs for column in each))
    edges = [np.concatenate([each[i] for each in pairs]) for i in (0, 1)]
    graph = Graph.of(np.concatenate(edges), np.concatenate(edges[::-1]), size)
    part = np.empty(size, np.uint32)
    count = components(graph.bounds, graph.targets, part)
    rows, columns = (
        np.bincount(side, minlength=count).astype(np.float64)
        for side in (part[:shift], part[shift:])
    )
    if thresholds.now.shape_empty * float(rows @ columns) < words:
        raise Declined("its values fall into many parts, and few pairs of them can be facts")


def side_words(words: Words, sides: Sequence[Pairs | None]) -> Words:
    """All words of a side."""
    return np.unique(np.concatenate([words, *(end for side in sides if side for end in side)]))


def _in_order(words: Words, steps: Sequence[Pairs | None]) -> Words:
    """Words so that steps lead from earlier to later ones, unless in circles."""
    edges = union([pairs for pairs in steps if pairs is not None])
    graph = Graph.of(*edges, extent(words))
    component = np.empty(graph.nodes, np.uint32)
    components(graph.bounds, graph.targets, component)
    return words[np.argsort(component[words], kind="stable")[::-1]]


def _may_be(tests: Sequence[PlaceTest], rows: Words, columns: Words, limits: ShapeLimits) -> Bits:
    """The places of a matrix where tests hold."""
    every = np.arange(len(columns), dtype=np.uint32)
    touched = np.full((len(columns) + 63) // 64, ALL, np.uint64)
    bits = np.empty((len(columns), WORDS), np.uint64)
    out: Bits = np.zeros((len(rows), len(touched)), np.uint64)
    for at in range(0, len(rows), BLOCK):
        limits.check()
        block = rows[at : at + BLOCK]
        bits[:] = ALL
        for each in tests:
            each.test.keep(block, columns, every, bits)
        drain_rows(bits, touched, len(block), out[at:])
    return out


def _singles(words: Words) -> Fold:
    """Every word a class of its own."""
    class_of = np.full(extent(words), NONE, np.uint32)
    class_of[words] = np.arange(len(words), dtype=np.uint32)
    return Fold.of(class_of, len(words))


def _within(fold: Fold, pairs: Pairs) -> Graph:
    """Pairs of words as a graph of their classes."""
    return Graph.of(fold.class_of[pairs[0]], fold.class_of[pairs[1]], fold.count)


def _together(graphs: Sequence[Graph]) -> tuple[NDArray[np.int64], Words]:
    """The bounds of graphs as a table, and their targets one behind the other."""
    return np.stack([g.bounds for g in graphs]), np.concatenate([g.targets for g in graphs])
