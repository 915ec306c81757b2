"""Where facts live: the copies of each relation of a clique, and which copy every rule reads.

Every relation has an *owner* copy, which decides what is new, and perhaps other copies. A copy is
spread over the tasks by a hash of some of its columns; a copy by no columns lives in the first
task; a whole copy is in every task.

A rule with several recursive atoms takes place where they meet: a variable is chosen, every atom
that has it reads its copy by that column, and the others read a whole copy. All delta rules of a
rule use the same copies. That is what makes a delay harmless: two facts meet in the task, and in
the round, where the later of them arrives. A rule with one recursive atom takes place wherever the
fact is, so it reads the owner copy.

A value that is so frequent that its task would have too much to do (skew.py) is split. Where atoms
meet, the facts of one atom with that value are spread by all their columns, and those of the others
are in every task: then any of them still meet in exactly one task. Where one fact fans out to many
of a finished relation, the fact is in every task, and each task has a share of the others.

Which columns own a relation is chosen by counting: a candidate that is derived where it is owned
does not travel, a copy that rules read anyway saves another one, and where neither gains anything
all columns are hashed, so that no value is too frequent.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import prod
from typing import Final, TypeAlias

from caladan.analysis.core import RelationInfo, Term
from caladan.program import Variable
from caladan.rules.body import Body, Scan, Version
from caladan.rules.program import DeltaRule

ColumnPlaces: TypeAlias = tuple[int, ...]

_TRIED: Final = 4096  # combinations of owners that are looked at, all of them
_TRAVELS: Final = 2.0  # candidates are many: most of what is derived is known already
_COPIED: Final = 1.0
_UNEVEN: Final = 0.01


class Heavy(Enum):
    """Where the facts of a copy are that have a heavy value in the column it is spread by."""

    TOGETHER = "together"  # where a hash of the value says, as all others
    SPREAD = "spread"  # where a hash of all columns says
    EVERYWHERE = "everywhere"  # in every task
    ALONE = "alone"  # in every task, and the copy has no other facts


@dataclass(frozen=True, slots=True)
class Copy:
    """A relation, spread by some columns; whole in every task if `by` is None."""

    relation: str
    by: ColumnPlaces | None
    heavy: Heavy = Heavy.TOGETHER

    @property
    def name(self) -> str:
        """A name that no relation has."""
        spread = "whole" if self.by is None else ",".join(map(str, self.by))
        return f"{self.relation}@{spread}@{self.heavy.value}"


@dataclass(frozen=True, slots=True)
class RuleBody:
    """The head and the body of a delta rule; `rule` is the place of the rule it came from."""

    rule: int
    head: str
    body: Body

    @staticmethod
    def of(rule: DeltaRule) -> RuleBody:
        """The head and the body of a delta rule."""
        return RuleBody(rule.rule.place, rule.rule.head, rule.body.separated)

    @property
    def recursive(self) -> tuple[Scan, ...]:
        """The atoms of the clique."""
        return tuple(scan for scan in self.body.atoms if scan.version is not Version.FULL)

    def places(
        self, scan: Scan, relations: Mapping[str, RelationInfo]
    ) -> Iterator[tuple[int, str]]:
        """The columns of an atom that facts can be spread by, with their variables.

        The values of aggregates change, so facts would have to move. A variable that is a column's
        own, because kinds of numbers differ, is shared with nothing.
        """
        group = relations[scan.relation].group
        for i, argument in enumerate(scan.arguments):
            is_shared = isinstance(argument, Variable) and argument.name not in self.body.widened
            if i in group and isinstance(argument, Variable) and is_shared:
                yield i, argument.name


@dataclass(frozen=True, slots=True)
class Placement:
    """The owner copy of every relation, the copies there are besides, and which copy is read.

    `reads` is by rule and recursive atom, where that is not the owner copy.
    """

    owners: Mapping[str, Copy]
    others: tuple[Copy, ...]
    reads: Mapping[tuple[int, str, tuple[Term, ...]], Copy]

    def read(self, rule: RuleBody, scan: Scan) -> Copy:
        """The copy that a recursive atom of a rule reads."""
        return self.reads.get(
            (rule.rule, scan.relation, scan.arguments), self.owners[scan.relation]
        )


def placement(
    rules: Sequence[RuleBody],
    relations: Mapping[str, RelationInfo],
    is_heavy: Callable[[str, int], bool] = lambda _, __: False,
    fanned: Iterable[Copy] = (),
) -> Placement:
    """Choose the copies for the delta rules of a clique; `relations` are those of the clique.

    `is_heavy` tells whether a column may have heavy values; `fanned` are copies that are wanted
    for facts that fan out.
    """
    met = meetings(rules, relations)
    reads: dict[tuple[int, str, tuple[Term, ...]], Copy] = {}
    for rule in rules:
        if rule.rule in met:
            reads.update(_reads(rule, met[rule.rule], relations, is_heavy))
    needed = dict.fromkeys((*reads.values(), *fanned))
    best = min(
        _choices(relations, is_heavy),
        key=lambda owners: _cost(owners, rules, relations, met, needed),
    )
    others = tuple(copy for copy in needed if best[copy.relation] != copy)
    return Placement(best, others, reads)


def place_in_first(relations: Iterable[str]) -> Placement:
    """All facts in the first task."""
    return Placement({name: Copy(name, ()) for name in relations}, (), {})


def meetings(
    rules: Sequence[RuleBody], relations: Mapping[str, RelationInfo]
) -> dict[int, str | None]:
    """The variables in which rules with several recursive atoms meet, by rule."""
    several = (rule for rule in rules if len(rule.recursive) > 1)
    return {rule.rule: _find_shared_variable(rule, relations) for rule in several}


def _reads(
    rule: RuleBody,
    variable: str | None,
    relations: Mapping[str, RelationInfo],
    is_heavy: Callable[[str, int], bool],
) -> Iterator[tuple[tuple[int, str, tuple[Term, ...]], Copy]]:
    """Which copies the recursive atoms of a rule read: of one of them heavy values are spread.

    That is the same one in all delta rules of the rule, in whatever order these have their atoms.
    """
    scans = sorted(rule.recursive, key=lambda scan: (scan.relation, repr(scan.arguments)))
    copies = {(s.relation, s.arguments): _met(rule, s, variable, relations) for s in scans}
    heavy = [atom for atom, copy in copies.items() if copy.by and is_heavy(atom[0], copy.by[0])]
    # A relation with one column to be known by has nothing else to be spread by.
    spread = next((a for a in heavy if copies[a].by != relations[a[0]].group), None)
    for atom, copy in copies.items():
        how = Heavy.TOGETHER
        if spread is not None and atom in heavy:
            how = Heavy.SPREAD if atom == spread else Heavy.EVERYWHERE
        yield (rule.rule, *atom), replace(copy, heavy=how)


def _find_shared_variable(rule: RuleBody, relations: Mapping[str, RelationInfo]) -> str | None:
    """The variable that most recursive atoms share; None if they have no variables at all."""
    counts: dict[str, int] = {}
    for scan in rule.recursive:
        for name in {name for _, name in rule.places(scan, relations)}:
            counts[name] = counts.get(name, 0) + 1
    in_head = {c.name for c in rule.body.columns if isinstance(c, Variable)}
    return max(sorted(counts), key=lambda name: (counts[name], name in in_head), default=None)


def _met(
    rule: RuleBody, scan: Scan, variable: str | None, relations: Mapping[str, RelationInfo]
) -> Copy:
    """The copy that an atom reads in a rule whose atoms meet in a variable."""
    if variable is None:
        return Copy(scan.relation, ())
    columns = [i for i, name in rule.places(scan, relations) if name == variable]
    return Copy(scan.relation, (columns[0],) if columns else None)


def _choices(
    relations: Mapping[str, RelationInfo], is_heavy: Callable[[str, int], bool]
) -> Iterator[dict[str, Copy]]:
    """Combinations of owners: all of them, or, for large cliques, the most even."""
    options = {name: _options(info, is_heavy) for name, info in relations.items()}
    if prod(map(len, options.values())) > _TRIED:
        options = {name: some[:1] for name, some in options.items()}
    for chosen in itertools.product(*options.values()):
        yield dict(zip(options, chosen, strict=True))


def _options(info: RelationInfo, is_heavy: Callable[[str, int], bool]) -> list[Copy]:
    group = info.group
    found = [Copy(info.name, group)]
    for column in group if len(group) > 1 else ():
        heavy = Heavy.SPREAD if is_heavy(info.name, column) else Heavy.TOGETHER
        found.append(Copy(info.name, (column,), heavy))
    return found


def _cost(
    owners: Mapping[str, Copy],
    rules: Sequence[RuleBody],
    relations: Mapping[str, RelationInfo],
    meetings: Mapping[int, str | None],
    needed: Mapping[Copy, None],
) -> float:
    cost = sum(_COPIED for copy in needed if copy.by is not None and owners[copy.relation] != copy)
    cost += sum(_UNEVEN for name, copy in owners.items() if copy.by != relations[name].group)
    for rule in rules:
        if not _is_local(rule, owners, relations, meetings):
            cost += _TRAVELS
    return cost


def _is_local(
    rule: RuleBody,
    owners: Mapping[str, Copy],
    relations: Mapping[str, RelationInfo],
    meetings: Mapping[int, str | None],
) -> bool:
    """Whether what a rule derives is owned where it is derived; but for heavy values."""
    by = owners[rule.head].by
    if by is None or len(by) != 1:
        return False
    column = rule.body.columns[by[0]]
    if rule.rule in meetings:
        return isinstance(column, Variable) and column.name == meetings[rule.rule]
    (seed,) = rule.recursive
    spread = owners[seed.relation].by
    if spread is None or len(spread) != 1 or not isinstance(column, Variable):
        return False
    return dict(rule.places(seed, relations)).get(spread[0]) == column.name
