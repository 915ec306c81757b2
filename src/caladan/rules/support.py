"""Sums of a recursion: whether what was added still holds in the end, and whether they settle.

A sum of a recursion has the current value of every contributor. One whose solution holds no more
has none: where `total(P, msum<(S, C)>) <- bom(P, S), total(S, C), C > 3` adds a `C` that falls to 2
later, there is nothing to put into its place. What was made of it meanwhile may be what made it
fall, so no order of evaluation is the right one. Whether it comes to that depends on the data, so
rules that look at a value that still changes are watched:

    held(P, S)   every solution of the rule that there ever was; derived along with the sums
    holds(P, S)  the solutions that there are in the end
    lost(P, S)   <- held(P, S), ~holds(P, S)

Engines need not know: `held` is one more relation of the clique, the others are evaluated after
it. A run that has facts in `lost` has no answer (C047).

Data with a cycle may make sums grow for ever. `Growth` counts the rounds that change sums while no
new facts come. Up to the number of sums, all is as it should be: sums along data without a cycle
settle in so many rounds. After that, where the rules and whole numbers allow it (rules/sums.py),
the next change is the proof. Otherwise values are looked at, and compared with those of a round
some time ago:

    REPEATS   all values are as they were then: they will go round in the same way for ever
    RISES     nothing fell since, for more rounds than there are sums, and everything that rose then
              rises now, by no less: so it will, for amounts are linear in sums
    RISES     too, where some fall and rise again: all has changed in the same way twice over, for
              more rounds than there are sums, and nothing is less than it was one such time before;
              or something is, but amounts only add up, so that nothing can put an end to it

Neither is true of what comes to an end: damped cycles, whose differences shrink, go on until
doubles cannot tell the difference, and factors of 0 or cycles that cancel out settle at once. What
grows faster and faster ends as an overflow anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntFlag
from math import isclose
from typing import Any, Final, TypeAlias

from caladan.analysis.core import Checked, Clique, CoreAtom, CoreRule, RelationInfo
from caladan.analysis.demand import DemandProgram
from caladan.program import Aggregate, Column, Expression, Variable, names
from caladan.program.transform import fresh
from caladan.rules.program import Totals
from caladan.rules.sums import solution, steady

_CLOSE: Final = 1 - 1e-9  # differences of doubles are rounded


Values: TypeAlias = Mapping[Any, Any]
"""What aggregates have, by group and column; numbers where all are sums."""


class Sign(IntFlag):
    """What values show; where several tasks look, all of them have to show the same."""

    NOTHING = 0
    REPEATS = 1
    RISES = 2
    BOTH = 3


class Growth:
    """Watches the sums of a clique."""

    def __init__(self, totals: Totals | None, steps: int = 1) -> None:
        """A change takes so many rounds, `steps`, to get from one sum to the next, at most."""
        self._totals = totals
        self.steps = steps
        self._facts = -1
        self._rounds = 0
        self._forget()

    def _forget(self) -> None:
        self._last: Values | None = None
        self._then: tuple[Values, Values] = {}, {}
        self._rises: Mapping[Any, float] = {}
        self._at = 0
        self._fell = False
        self._period: tuple[int, Values] | None = None

    @property
    def rounds(self) -> int:
        """How many rounds changed sums while no new facts came."""
        return self._rounds

    def count(self, facts: int) -> None:
        """One more round that changed something, and how many facts there are now."""
        if facts != self._facts:
            self._facts, self._rounds = facts, 0
            self._forget()
        else:
            self._rounds += 1

    @property
    def _enough(self) -> int:
        """In how many rounds sums along data without a cycle settle."""
        assert self._totals is not None
        return self._facts * self._totals.width * self.steps

    @property
    def is_suspect(self) -> bool:
        """Whether there were more rounds than sums: then it is time to look at values."""
        return self._totals is not None and self._rounds > self._enough

    @property
    def is_sure(self) -> bool:
        """Whether there is no need to look."""
        return self.is_suspect and self._totals is not None and self._totals.is_exact

    def look(self, values: Values) -> Sign:
        """What the values of all aggregates show after a round, in a suspect run."""
        assert self._totals is not None
        last, self._last = self._last, values
        if last is None:
            return Sign.NOTHING
        rises: dict[Any, float] = {}
        if self._totals.is_linear:
            rises = {key: value - last.get(key, value) for key, value in values.items()}
        falls = any(rise < 0 for rise in rises.values())
        if self._rounds >= 2 * self._at:
            self._at, self._then, self._rises = self._rounds, (last, values), rises
            self._fell, self._period = falls, None
            return Sign.NOTHING
        self._fell |= falls
        # What is on its way between tasks was there a round before.
        sign = Sign.REPEATS if (last, values) == self._then else Sign.NOTHING
        if self._totals.is_linear:
            grows = (
                self._rises_again(values, rises) if self._fell else self._rises_by_no_less(rises)
            )
            sign |= Sign.RISES if grows and self._rounds - self._at > self._enough else Sign.NOTHING
        return sign

    def _rises_by_no_less(self, rises: Mapping[Any, float]) -> bool:
        return all(rises[key] >= rise * _CLOSE for key, rise in self._rises.items())

    def _rises_again(self, values: Values, rises: Mapping[Any, float]) -> bool:
        """Whether a second time has passed in which all changed as in the first, upwards."""
        after = self._rounds - self._at
        if self._period is None:
            if after and _alike(rises, self._rises):
                self._period = after, values
            return False
        length, middle = self._period
        if after < 2 * length:
            return False
        once = {key: value - self._then[1][key] for key, value in middle.items()}
        again = {key: value - middle[key] for key, value in values.items()}
        assert self._totals is not None
        may_end = not self._totals.is_plain and any(rise < 0 for rise in once.values())
        if after == 2 * length and _alike(once, again) and not may_end:
            return True
        self._period = None
        return False


def _alike(one: Mapping[Any, float], other: Mapping[Any, float]) -> bool:
    return all(isclose(rise, other[key], rel_tol=1 - _CLOSE) for key, rise in one.items())


@dataclass(frozen=True, slots=True)
class SumRule:
    """A rule that adds to sums, and the relation of those of its solutions that were lost.

    Its first columns are the variables `keys`.
    """

    rule: CoreRule
    lost: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SupportedProgram:
    """A program, what of it is wanted whole, and those of its rules that are watched."""

    checked: Checked
    wanted: tuple[str, ...] = ()
    rules: tuple[SumRule, ...] = ()


def watch_sums(demanded: DemandProgram) -> SupportedProgram:
    """The program with its rules watched, where they look at sums that still change."""
    checked, wanted = demanded.checked, demanded.wanted
    relations = dict(checked.relations)
    cliques: list[Clique] = []
    watched: list[SumRule] = []
    for clique in checked.cliques:
        after: list[Clique] = []
        watching = clique
        for keys, rules in _to_watch(clique, checked.relations):
            made = _Watch(keys, rules, clique, relations)
            relations |= made.relations
            watching = replace(
                watching,
                relations=(*watching.relations, made.held),
                rules=(*watching.rules, *made.holding(made.held)),
            )
            after.append(Clique((made.holds,), False, clique.stratum, made.holding(made.holds)))
            after.append(Clique((made.lost,), False, clique.stratum + 1, (made.losing(),)))
            watched.append(SumRule(rules[0], made.lost, keys))
        cliques += [watching, *after]
    if not watched:
        return SupportedProgram(checked, wanted)
    every = tuple(rule for clique in cliques for rule in clique.rules)
    program = replace(checked, relations=relations, rules=every, cliques=tuple(cliques))
    return SupportedProgram(program, wanted, tuple(watched))


def _to_watch(
    clique: Clique, relations: Mapping[str, RelationInfo]
) -> list[tuple[tuple[str, ...], list[CoreRule]]]:
    """The rules to watch, by what tells their solutions apart.

    Ways through an `if` are one rule: a solution may go over from one to another.
    """
    found: dict[tuple[str, int, tuple[str, ...]], list[CoreRule]] = {}
    for rule in clique.recursive_rules if clique.is_recursive else ():
        if any(row is not None and row.is_total for row in relations[rule.head].aggregates):
            keys = _keys(rule, clique, relations)
            found.setdefault((rule.head, rule.number, keys), []).append(rule)
    return [
        (keys, rules)
        for (_, _, keys), rules in found.items()
        if any(_looks(rule, clique, relations) for rule in rules)
    ]


def _keys(rule: CoreRule, clique: Clique, relations: Mapping[str, RelationInfo]) -> tuple[str, ...]:
    """The variables that tell solutions apart, and who contributes."""
    fixed = steady(rule, clique, relations)
    found = [each.name for each in solution(rule, clique, relations)]
    found += [name for term in _witnesses(rule) for name in sorted(names(term) - fixed)]
    return tuple(dict.fromkeys(found))


def _looks(rule: CoreRule, clique: Clique, relations: Mapping[str, RelationInfo]) -> bool:
    """Whether it depends on a value that still changes if a solution holds, or where it counts."""
    changing = _find_changing(rule, clique, relations)
    if changing is None:
        return True
    made = set(changing)
    known = {name for atom in rule.positive for name in atom.variables}
    tests = list(rule.comparisons)
    grown = True
    while grown:
        grown = False
        for comparison in list(tests):
            sides = (comparison.left, comparison.right)
            for one, other in (sides, sides[::-1]):
                if (
                    comparison.operator == "="
                    and isinstance(one, Variable)
                    and one.name not in known
                    and names(other) <= known
                ):
                    known.add(one.name)
                    if names(other) & made:
                        made.add(one.name)
                    tests.remove(comparison)
                    grown = True
                    break
    return (
        any(names(test) & made for test in tests)
        or any(made & set(atom.variables) for atom in rule.atoms if atom.negated)
        or any(made & names(term) for term in _witnesses(rule))
        or any(made & names(rule.arguments[i]) for i in relations[rule.head].group)
    )


def _find_changing(
    rule: CoreRule, clique: Clique, relations: Mapping[str, RelationInfo]
) -> set[str] | None:
    """The variables of values that still change; None where one is joined, or has to be one."""
    changing: set[str] = set()
    elsewhere: list[str] = []
    for atom in rule.positive:
        functions = relations[atom.relation].aggregates
        for argument, function in zip(atom.arguments, functions, strict=True):
            if function is None or atom.relation not in clique.relations:
                elsewhere += [argument.name] if isinstance(argument, Variable) else []
            elif not isinstance(argument, Variable) or argument.name in changing:
                return None
            else:
                changing.add(argument.name)
    return None if changing & set(elsewhere) else changing


def _witnesses(rule: CoreRule) -> Iterator[Expression]:
    """What says who contributes, besides the solution."""
    for argument in rule.arguments:
        if isinstance(argument, Aggregate):
            yield from argument.terms if argument.function == "countd" else argument.terms[:-1]


class _Watch:
    """The relations that watch a rule, and their rules."""

    def __init__(
        self,
        keys: tuple[str, ...],
        rules: Sequence[CoreRule],
        clique: Clique,
        relations: Mapping[str, RelationInfo],
    ) -> None:
        first = rules[0]
        info = relations[first.head]
        self._keys, self._rules = keys, rules
        self._groups = [
            i
            for i in info.group
            if any(not names(r.arguments[i]) <= steady(r, clique, relations) for r in rules)
        ]
        types = [first.types[name] for name in keys]
        types += [info.columns[i].type for i in self._groups]
        columns = tuple(Column(f"K{i}", type) for i, type in enumerate(types, 1))
        taken = set(relations)
        made = [
            fresh(f"{kind}_{first.head}_{first.number}", taken)
            for kind in ("held", "holds", "lost")
        ]
        self.held, self.holds, self.lost = made
        self.relations = {
            name: RelationInfo(
                name, columns, takes_data=False, is_derived=True,
                aggregates=(None,) * len(columns), origin=info.origin, is_internal=True,
            )
            for name in made
        }  # fmt: skip

    def holding(self, head: str) -> tuple[CoreRule, ...]:
        """The rules of the solutions."""
        return tuple(
            replace(
                rule,
                head=head,
                arguments=(
                    *(Variable(name) for name in self._keys),
                    *(rule.arguments[i] for i in self._groups),
                ),
                order=(),
                limit=None,
            )
            for rule in self._rules
        )

    def losing(self) -> CoreRule:
        """The rule of the solutions that are no more."""
        info = self.relations[self.lost]
        keys = tuple(Variable(column.name) for column in info.columns)
        atoms = (CoreAtom(self.held, keys), CoreAtom(self.holds, keys, negated=True))
        types = {column.name: column.type for column in info.columns}
        first = self._rules[0]
        return CoreRule(first.number, self.lost, keys, atoms, (), types, span=first.span)
