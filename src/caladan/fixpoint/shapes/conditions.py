"""Literals that connect what a rule carries with where it steps, as tests of a block of sources.

    X ~= Z, Z - X < 9, X % 7 = Z     comparisons whose sides can be told apart: numbers of sources
                                     against numbers of nodes, found once for each of them
    ~far(X, Z), near(X, Z)           atoms: their facts as pairs of a source and a node; those of a
                                     layout as its own bits
    X * Z > X + Z, f(X, Z)           anything else is asked for every pair

comparisons.py tells sides apart: Z - X < 9 becomes X > Z - 9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from caladan.analysis.core import CoreAtom, CoreRule
from caladan.columns.folded_index import NONE, class_of
from caladan.columns.interner import ABSENT, Tuples
from caladan.columns.kernels.blocks import WORDS
from caladan.columns.layout import Mask, Words
from caladan.columns.matrices import Matrix
from caladan.fixpoint.shapes.blocks import (
    AskedTest,
    Bits,
    BlockTest,
    ComparedTest,
    PairedTest,
    PlaceTest,
)
from caladan.fixpoint.shapes.comparisons import told_apart
from caladan.fixpoint.shapes.inputs import ShapeInputs
from caladan.fixpoint.shapes.pairs import Declined, NodePlace
from caladan.join.frontier import Bindings
from caladan.plan.literals import CoreLiteral
from caladan.program import (
    Comparison,
    Expression,
    Variable,
    thresholds,
)


@dataclass(frozen=True, slots=True)
class TestedSide:
    """Tuples of a place that are in use, and the variables that their columns are bound to."""

    place: NodePlace
    numbers: Words
    terms: tuple[Expression, ...]

    def columns(self, numbers: Words) -> dict[str, Words]:
        """The words of each variable for some tuples."""
        named = zip(self.terms, self.place.columns(numbers), strict=True)
        return {term.name: words for term, words in named if isinstance(term, Variable)}

    @property
    def names(self) -> frozenset[str]:
        """The variables."""
        return frozenset(term.name for term in self.terms if isinstance(term, Variable))


def place_tests(
    rule: CoreRule,
    literals: Sequence[CoreLiteral],
    sources: TestedSide,
    ends: TestedSide,
    inputs: ShapeInputs,
) -> tuple[PlaceTest, ...]:
    """The tests that literals of a rule come down to, where it leaves or arrives."""
    begin, end = ends.place.range
    found: list[BlockTest] = []
    asked: list[CoreLiteral] = []
    for literal in literals:
        test = (
            _in_layout(literal, sources, ends, inputs)
            or _pair_kinds(rule, literal, sources, ends, inputs)
            if isinstance(literal, CoreAtom)
            else _compare_sides(rule, literal, sources, ends, inputs)
        )
        if test is None:
            asked.append(literal)
        else:
            found.append(test)
    if asked:
        shift = np.uint32(begin)

        def holds(some: Words, nodes: Words) -> Mask:
            columns = {
                **{n: w[:, None] for n, w in sources.columns(some).items()},
                **{n: w[None, :] for n, w in ends.columns(nodes - shift).items()},
            }
            return inputs.holds(rule, asked, columns, (len(some), len(nodes)))

        found.append(AskedTest(holds))
    return tuple(PlaceTest(begin, end, each) for each in found)


# ── Comparisons ──────────────────────────────────────────────────────────────────────────────────


def _compare_sides(
    rule: CoreRule,
    comparison: Comparison,
    sources: TestedSide,
    ends: TestedSide,
    inputs: ShapeInputs,
) -> ComparedTest | None:
    """A comparison of what a source comes to by itself with what a node does."""
    evaluator = inputs.evaluator(rule, sources.names | ends.names)
    first = Bindings(len(sources.numbers), sources.columns(sources.numbers))
    second = Bindings(len(ends.numbers), ends.columns(ends.numbers))
    try:
        found = told_apart(comparison, evaluator, first, second)
    except ArithmeticError:
        raise Declined("a comparison of it cannot be made for all values") from None
    if found is None:
        return None
    operator, of_source, of_node = found
    values = np.zeros(sources.place.size, np.int64)
    values[sources.numbers] = of_source
    others = np.zeros(ends.place.begin + ends.place.size, np.int64)
    others[ends.numbers + np.uint32(ends.place.begin)] = of_node
    return ComparedTest(operator, values, others)


# ── Atoms ────────────────────────────────────────────────────────────────────────────────────────


class MatrixTest:
    """Facts of a layout that must be, or must not be, by class of a source and of a node.

    In a `turned` one, sources stand on the second side of the layout.
    """

    def __init__(
        self, matrix: Matrix, of_source: Words, of_node: Words, *, negated: bool, turned: bool
    ) -> None:
        self._matrix = matrix
        self._turned = turned
        self._of_source = of_source
        self._of_node = of_node
        self._negated = negated

    def keep(self, sources: Words, nodes: Words, rows: Words, masks: Bits) -> None:
        matrix, turned = self._matrix, self._turned
        held = np.zeros(((matrix.rows if turned else matrix.columns).count + 1, WORDS), np.uint64)
        classes = self._of_source[sources]
        known = np.flatnonzero(classes != NONE)
        fill = matrix.fill_columns if turned else matrix.fill
        fill(classes[known], known.astype(np.uint32), held)
        found = held[np.minimum(self._of_node[nodes], np.uint32(len(held) - 1))]
        masks[rows] &= ~found if self._negated else found


def _in_layout(
    atom: CoreAtom, sources: TestedSide, ends: TestedSide, inputs: ShapeInputs
) -> MatrixTest | None:
    """A test by the matrix of another relation, whose sides are those of the rule."""
    folded = inputs.layout(atom)
    if folded is None or len(folded.matrix.extra):
        return None
    folds = folded.matrix.rows, folded.matrix.columns
    for turned in (False, True):
        classes: list[Words] = []
        sides = (sources, ends)[:: -1 if turned else 1]
        for mine, side, fold in zip(sides, (folded.first, folded.second), folds, strict=True):
            known = mine.columns(mine.numbers)
            terms = ((c, atom.arguments[c]) for c in side.columns)
            words = {
                c: known[t.name] for c, t in terms if isinstance(t, Variable) and t.name in known
            }
            if len(words) < len(side.columns):
                break
            begin, end = (0, mine.place.size) if mine is sources else mine.place.range
            of = np.full(end, NONE, np.uint32)
            numbers = side.keys(side.columns, words, len(mine.numbers))
            of[mine.numbers + np.uint32(begin)] = class_of(fold.class_of, numbers)
            classes.append(of)
        else:
            both = classes[::-1] if turned else classes
            return MatrixTest(folded.matrix, both[0], both[1], negated=atom.negated, turned=turned)
    return None


def _pair_kinds(
    rule: CoreRule, atom: CoreAtom, sources: TestedSide, ends: TestedSide, inputs: ShapeInputs
) -> PairedTest | None:
    """The facts of an atom as pairs of kinds of sources and nodes; None if they are too many."""
    named = dict.fromkeys(atom.variables)
    first = [n for n in named if n in sources.names]
    second = [n for n in named if n in ends.names]
    if not first or not second:
        return None
    facts = replace(
        rule,
        arguments=tuple(Variable(n) for n in (*first, *second)),
        atoms=(replace(atom, negated=False),),
        comparisons=(),
    )
    try:
        columns = inputs.solve(facts, thresholds.now.shape_join)
    except Declined:
        return None
    # Sources that agree in what the atom reads are one kind, and so are nodes.
    of_source, kinds, one = _kinds(sources, first, columns[: len(first)])
    of_node, node_kinds, other = _kinds(ends, second, columns[len(first) :])
    known = (one != ABSENT) & (other != ABSENT)
    both = kinds + 1, node_kinds + 1
    return PairedTest((one[known], other[known]), of_source, of_node, both, atom.negated)


def _kinds(
    side: TestedSide, names: Sequence[str], facts: Sequence[Words]
) -> tuple[Words, int, Words]:
    """The kinds of tuples of a place by some variables, how many there are, and those of facts."""
    known: Mapping[str, Words] = side.columns(side.numbers)
    tuples = Tuples(len(names))
    ids, _ = tuples.ids([known[n] for n in names], len(side.numbers))
    kinds = np.full(side.place.begin + side.place.size, len(tuples), np.uint32)
    kinds[side.numbers + np.uint32(side.place.begin)] = ids
    return kinds, len(tuples), tuples.find([np.ascontiguousarray(c) for c in facts], len(facts[0]))
