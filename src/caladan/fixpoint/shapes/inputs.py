"""What shapes ask of a run: exit facts, the solutions of rules, words and numbers, layouts.

`Shaping` (choice.py) answers for the engine, forecast.py for explain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from caladan.analysis.core import CoreAtom, CoreRule, RelationInfo
from caladan.columns.domains import Domain
from caladan.columns.folded_relation import FoldedRelation
from caladan.columns.interner import Tuples
from caladan.columns.layout import Counts, Layout, Mask, Words
from caladan.fixpoint.shapes.pairs import Declined
from caladan.join.expressions import Evaluator
from caladan.plan.literals import CoreLiteral
from caladan.plan.recursion import Closure
from caladan.program import Value


class ShapeInputs(Protocol):
    """What a shape asks of the engine."""

    def exit(self, relation: str) -> tuple[Words, ...]:
        """The distinct facts of a relation before its recursive rules: exit rules, facts, data."""
        ...

    def solve(self, rule: CoreRule, most: int | None = None) -> tuple[Words, ...]:
        """The distinct head rows of a rule over finished relations; its head names no relation.

        Declines if there are more solutions than `most`. Relations of the clique have their exit
        facts.
        """
        ...

    def info(self, relation: str) -> RelationInfo:
        """What is known of a relation."""
        ...

    def word(self, relation: str, column: int, value: Value) -> int | None:
        """The word of a value in a column, None if no fact has it."""
        ...

    def domain(self, relation: str, column: int) -> Domain:
        """The domain of a column."""
        ...

    def share_words(self, relation: str, *columns: int) -> bool:
        """Whether the same word in some columns is the same value."""
        ...

    def numbers(self, relation: str, column: int, words: Words) -> Counts:
        """The numbers that words of a column stand for."""
        ...

    def words(self, relation: str, column: int, numbers: Counts) -> Words:
        """The words of numbers in a column, new ones if need be."""
        ...

    def values(self, rule: CoreRule, variable: str, words: Words) -> Counts:
        """The numbers that words of a variable stand for."""
        ...

    def stored(self, relation: str, facts: Iterator[tuple[Words, ...]]) -> Layout:
        """A relation that holds some facts, each of which comes once."""
        ...

    def layout(self, atom: CoreAtom) -> FoldedRelation | None:
        """The relation of an atom, if it is folded and has many facts."""
        ...

    def evaluator(self, rule: CoreRule, names: Iterable[str]) -> Evaluator:
        """What evaluates expressions over some variables of a rule."""
        ...

    def holds(
        self,
        rule: CoreRule,
        literals: Sequence[CoreLiteral],
        columns: Mapping[str, Words],
        shape: tuple[int, int],
    ) -> Mask:
        """Where literals of a rule hold, in a matrix; columns have its rows or its columns."""
        ...


def exit_facts(closure: Closure, relation: str, inputs: ShapeInputs) -> tuple[Words, ...]:
    """The sources of a relation: its exit facts, also with their mirrored columns exchanged."""
    facts = inputs.exit(relation)
    if closure.mirrored is None:
        return facts
    if not inputs.share_words(relation, *closure.mirrored):
        raise Declined("it exchanges columns whose words have nothing in common")
    one, other = closure.mirrored
    order = list(range(len(facts)))
    order[one], order[other] = other, one
    both = [np.concatenate([facts[c], facts[order[c]]]) for c in range(len(facts))]
    _, new = Tuples(len(both)).ids(both, len(both[0]))
    return tuple(column[new] for column in both)
