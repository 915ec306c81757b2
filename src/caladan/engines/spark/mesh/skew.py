"""Heavy values: those with which a single task would have too much to do.

Where atoms of a rule meet in a variable, the facts with one value are in one task; and a fact of a
relation with one column to be known by (`reached(X)`, `distance(X, mmin<D>)`) is joined, where it
lives, with everything that has its value. A value is heavy if what is done with it is a large part
of what a task has to do on average. Such values are split (placement.py).

How much that is, is estimated before the first round from the facts that go in, which all tasks
have and see alike: relations of the clique are taken to have the values that exit rules give them.
A wrong estimate costs time, nothing else. Columns are sampled: a heavy value is in every sample.
Values that turn out to be heavy later are found by balance.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from caladan.analysis.core import RelationInfo
from caladan.columns.domains import Domain
from caladan.columns.layout import Counts, Words
from caladan.engines.spark.mesh.placement import Copy, Heavy, RuleBody, meetings
from caladan.program import Variable
from caladan.rules.body import Body, Version

_SAMPLE: Final = 1 << 18  # words of a column that are looked at

ColumnPlace: TypeAlias = tuple[str, int]  # a column of a relation


@dataclass(frozen=True, slots=True)
class SkewLimits:
    """When a value is heavy: from this share of what a task does on average, and so many facts.

    `moving` is what it costs to place a fact anew, as a multiple of what a solution costs.
    """

    share: float = 0.1
    least: int = 1 << 16
    moving: float = 2.0


@dataclass(frozen=True, slots=True)
class SkewInputs:
    """What is known before the first round; `exits` are the exit rules with their heads."""

    words: Mapping[str, Sequence[Words]]
    exits: Sequence[tuple[str, Body]]
    recursive: Sequence[RuleBody]
    relations: Mapping[str, RelationInfo]
    domain: Callable[[str, int], Domain]


class Histogram:
    """How often values occur, about."""

    def __init__(self, values: Words, counts: Counts) -> None:
        self.values, self.counts = values, counts

    def __mul__(self, other: Histogram) -> Histogram:
        """How many pairs there are of equal values."""
        both, here, there = np.intersect1d(
            self.values, other.values, assume_unique=True, return_indices=True
        )
        return Histogram(both, self.counts[here] * other.counts[there])

    def heavy(self, splitting: SkewLimits, tasks: int) -> Words:
        """The values that are a large part of the whole."""
        least = max(splitting.least, splitting.share * float(self.counts.sum()) / tasks)
        return self.values[self.counts >= least]


def histogram(columns: Sequence[Words]) -> Histogram:
    """How often values occur in some columns together."""
    size = sum(map(len, columns))
    step = -(-size // _SAMPLE) or 1
    sample = np.concatenate([words[::step] for words in columns]) if columns else _NOTHING
    values, counts = np.unique(sample, return_counts=True)
    return Histogram(values, counts.astype(np.int64) * step)


_NOTHING: Final[Words] = np.empty(0, np.uint32)


@dataclass(frozen=True, slots=True)
class Fan:
    """A rule whose facts with heavy values find many facts of an atom, by a column of it.

    Those facts are in a copy of their own in every task.
    """

    atom: int
    column: int
    copy: Copy


class HeavyValues:
    """The heavy values of columns, as words; columns of one domain have the same.

    `by_domain` has them by the identity of the domain.
    """

    def __init__(
        self, by_domain: Mapping[Domain, Words], domain: Callable[[str, int], Domain]
    ) -> None:
        self.by_domain = by_domain
        self._domain = domain

    def plus(self, more: Mapping[Domain, Words]) -> HeavyValues:
        """These and some more."""
        found = dict(self.by_domain)
        for domain, words in more.items():
            found[domain] = np.union1d(found.get(domain, _NOTHING), words)
        return HeavyValues(found, self._domain)

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(map(len, self.by_domain.values()))

    def of(self, name: str, column: int) -> Words | None:
        """Those of a column, None if there are none."""
        return self.by_domain.get(self._domain(name, column))

    def has(self, name: str, column: int) -> bool:
        """Whether a column may have some."""
        return self.of(name, column) is not None

    def within(self, copy: Copy) -> Words | None:
        """Those of the column that a copy is spread by."""
        return self.of(copy.relation, copy.by[0]) if copy.by else None

    def fan(self, rule: RuleBody, relations: Mapping[str, RelationInfo]) -> Fan | None:
        """How the facts of a rule with one recursive atom fan out by heavy values, if they do."""
        if len(rule.recursive) != 1:
            return None
        (seed,) = rule.recursive
        for atom, column in fans(rule, relations):
            (by,) = relations[seed.relation].group
            name = rule.body.atoms[atom].relation
            same = self._domain(name, column) is self._domain(seed.relation, by)
            if same and self.has(name, column):
                return Fan(atom, column, Copy(seed.relation, (by,), Heavy.ALONE))
        return None


def heavy_values(inputs: SkewInputs, splitting: SkewLimits, tasks: int) -> HeavyValues:
    """The values that are heavy for some rule."""
    found: dict[Domain, Words] = {}
    for place, work in _work(inputs) if tasks > 1 and splitting.share else ():
        words = work.heavy(splitting, tasks)
        if len(words):
            domain = inputs.domain(*place)
            found[domain] = np.union1d(found.get(domain, _NOTHING), words)
    return HeavyValues(found, inputs.domain)


def _work(inputs: SkewInputs) -> Iterator[tuple[ColumnPlace, Histogram]]:
    """For each rule how much is done with each value by which it could be split."""
    met = meetings(inputs.recursive, inputs.relations)
    seen: set[int] = set()
    for rule in inputs.recursive:
        if rule.rule in seen:
            continue
        seen.add(rule.rule)
        if rule.rule in met:
            at = [
                (scan.relation, column)
                for scan in rule.recursive
                for column, name in rule.places(scan, inputs.relations)
                if name == met[rule.rule]
            ]
            work: Histogram | None = None
            for place in at:
                here = _estimate_histogram(place, inputs)
                work = here if work is None else work * here
            if work is not None:
                yield at[0], work
        else:
            for atom, column in fans(rule, inputs.relations):
                name = rule.body.atoms[atom].relation
                if name in inputs.words:
                    yield (name, column), histogram([inputs.words[name][column]])


def fans(rule: RuleBody, relations: Mapping[str, RelationInfo]) -> list[tuple[int, int]]:
    """The atoms, with their columns, that all have to do with one fact of the recursive atom.

    They are finished, and have the one variable by which the recursive atom's facts are known.
    """
    (seed,) = rule.recursive
    group = relations[seed.relation].group
    names = {name for column, name in rule.places(seed, relations) if group == (column,)}
    return [
        (atom, column)
        for atom, scan in enumerate(rule.body.atoms)
        if scan.version is Version.FULL
        for column, argument in enumerate(scan.arguments)
        if isinstance(argument, Variable) and argument.name in names
    ]


def _estimate_histogram(place: ColumnPlace, inputs: SkewInputs) -> Histogram:
    """How often values occur in a column of the clique, as far as exit rules and data tell."""
    name, column = place
    columns = [inputs.words[name][column]] if name in inputs.words else []
    for head, body in inputs.exits:
        if head == name and isinstance(given := body.columns[column], Variable):
            columns += [
                inputs.words[scan.relation][i]
                for scan in body.atoms
                for i, argument in enumerate(scan.arguments)
                if argument == given and scan.relation in inputs.words
            ][:1]
    domain = inputs.domain(name, column)
    if not columns:
        columns = [
            words
            for relation, all_words in inputs.words.items()
            for i, words in enumerate(all_words)
            if inputs.domain(relation, i) is domain
        ]
    return histogram(columns)
