"""Where facts live: the copies of each relation of a clique, and which copy every rule reads.

Every relation has an *owner* copy, which decides what is new, and perhaps other copies. A copy is
spread over the tasks by a hash of some of its columns; a copy by no columns lives in the first
task; a whole copy is in every task.

A rule with several recursive atoms takes place where they meet: a variable is chosen, every atom
that has it reads its copy by that column, and the others read a whole copy. All delta rules of a
rule use the same copies. That is what makes a delay harmless: two facts meet in the task, and in
the round, where the later of them arrives. A rule with one recursive atom takes place wherever the
fact is, so it reads the owner copy.

Which columns own a relation is chosen by counting: a candidate that is derived where it is owned
does not travel, a copy that rules read anyway saves another one, and where neither gains anything
all columns are hashed, so that no value is too frequent.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final, TypeAlias

from caladan.analysis.core import RelationInfo
from caladan.engines.embedded.body import Body
from caladan.operators.tree import Scan, Version
from caladan.program import Variable

Columns: TypeAlias = tuple[int, ...]

_TRIED: Final = 4096  # combinations of owners that are looked at, all of them
_TRAVELS: Final = 2.0  # candidates are many: most of what is derived is known already
_COPIED: Final = 1.0
_UNEVEN: Final = 0.01


@dataclass(frozen=True, slots=True)
class Copy:
    """A relation, spread by some columns; whole in every task if `by` is None."""

    relation: str
    by: Columns | None

    @property
    def name(self) -> str:
        """A name that no relation has."""
        spread = "whole" if self.by is None else ",".join(map(str, self.by))
        return f"{self.relation}@{spread}"


@dataclass(frozen=True, slots=True)
class RuleBody:
    """The head and the body of a delta rule; `rule` is the number of the rule it came from."""

    rule: int
    head: str
    body: Body

    @property
    def recursive(self) -> tuple[Scan, ...]:
        """The atoms of the clique."""
        return tuple(scan for scan in self.body.atoms if scan.version is not Version.FULL)


@dataclass(frozen=True, slots=True)
class Placement:
    """The owner copy of every relation, the copies there are besides, and where rules meet."""

    owners: Mapping[str, Copy]
    others: tuple[Copy, ...]
    meetings: Mapping[int, str | None]
    relations: Mapping[str, RelationInfo]

    def read(self, rule: RuleBody, scan: Scan) -> Copy:
        """The copy that a recursive atom of a rule reads."""
        if rule.rule not in self.meetings:
            return self.owners[scan.relation]
        return _met(scan, self.meetings[rule.rule], self.relations)


def placement(rules: Sequence[RuleBody], relations: Mapping[str, RelationInfo]) -> Placement:
    """Choose the copies for the delta rules of a clique; `relations` are those of the clique."""
    meetings: dict[int, str | None] = {}
    for rule in rules:
        if len(rule.recursive) > 1:
            meetings[rule.rule] = _meeting(rule, relations)
    needed = dict.fromkeys(
        _met(scan, meetings[rule.rule], relations)
        for rule in rules
        if rule.rule in meetings
        for scan in rule.recursive
    )
    best = min(
        _choices(relations), key=lambda owners: _cost(owners, rules, relations, meetings, needed)
    )
    owners = {name: Copy(name, by) for name, by in best.items()}
    others = tuple(copy for copy in needed if owners[copy.relation] != copy)
    return Placement(owners, others, meetings, relations)


def _meeting(rule: RuleBody, relations: Mapping[str, RelationInfo]) -> str | None:
    """The variable that most recursive atoms share; None if they have no variables at all."""
    counts: dict[str, int] = {}
    for scan in rule.recursive:
        for name in {name for _, name in _places(scan, relations)}:
            counts[name] = counts.get(name, 0) + 1
    in_head = {c.name for c in rule.body.columns if isinstance(c, Variable)}
    return max(sorted(counts), key=lambda name: (counts[name], name in in_head), default=None)


def _places(scan: Scan, relations: Mapping[str, RelationInfo]) -> Iterator[tuple[int, str]]:
    """The columns of an atom that facts can be spread by, with their variables.

    The values of aggregates change, so facts would have to move. A variable with `#` in its name
    is a column's own, made where kinds of numbers differ; it is shared with nothing.
    """
    group = relations[scan.relation].group
    for i, argument in enumerate(scan.arguments):
        if i in group and isinstance(argument, Variable) and "#" not in argument.name:
            yield i, argument.name


def _met(scan: Scan, variable: str | None, relations: Mapping[str, RelationInfo]) -> Copy:
    """The copy that an atom reads in a rule whose atoms meet in a variable."""
    if variable is None:
        return Copy(scan.relation, ())
    columns = [i for i, name in _places(scan, relations) if name == variable]
    return Copy(scan.relation, (columns[0],) if columns else None)


def _choices(relations: Mapping[str, RelationInfo]) -> Iterator[dict[str, Columns]]:
    """Combinations of owners: all of them, or, for large cliques, the most even."""
    options = {name: _options(info) for name, info in relations.items()}
    if prod(map(len, options.values())) > _TRIED:
        options = {name: some[:1] for name, some in options.items()}
    for chosen in itertools.product(*options.values()):
        yield dict(zip(options, chosen, strict=True))


def _options(info: RelationInfo) -> list[Columns]:
    group = info.group
    return [group] + [(column,) for column in group if len(group) > 1]


def _cost(
    owners: Mapping[str, Columns],
    rules: Sequence[RuleBody],
    relations: Mapping[str, RelationInfo],
    meetings: Mapping[int, str | None],
    needed: Mapping[Copy, None],
) -> float:
    cost = sum(
        _COPIED for copy in needed if copy.by is not None and owners[copy.relation] != copy.by
    )
    cost += sum(_UNEVEN for name, by in owners.items() if by != relations[name].group)
    for rule in rules:
        if not _is_local(rule, owners, relations, meetings):
            cost += _TRAVELS
    return cost


def _is_local(
    rule: RuleBody,
    owners: Mapping[str, Columns],
    relations: Mapping[str, RelationInfo],
    meetings: Mapping[int, str | None],
) -> bool:
    """Whether what a rule derives is owned where it is derived."""
    by = owners[rule.head]
    if len(by) != 1:
        return False
    column = rule.body.columns[by[0]]
    if rule.rule in meetings:
        return isinstance(column, Variable) and column.name == meetings[rule.rule]
    (seed,) = rule.recursive
    spread = owners[seed.relation]
    places = dict(_places(seed, relations))
    return (
        len(spread) == 1 and isinstance(column, Variable) and places.get(spread[0]) == column.name
    )
