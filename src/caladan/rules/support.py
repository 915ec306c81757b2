"""Whether what was added to a sum still holds when the recursion is over.

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
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from caladan.analysis.core import Checked, Clique, CoreAtom, CoreRule, RelationInfo
from caladan.analysis.direction import apart
from caladan.program import Aggregate, Column, Expression, Variable, names
from caladan.rules.contributors import solution, steady

_TOTALS = ("sum", "count", "msum", "mcount", "countd")


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
    """A program, and those of its rules that are watched."""

    checked: Checked
    rules: tuple[SumRule, ...] = ()


def watch(checked: Checked) -> SupportedProgram:
    """The program with its rules watched, where they look at sums that still change."""
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
        return SupportedProgram(checked)
    every = tuple(rule for clique in cliques for rule in clique.rules)
    program = replace(checked, relations=relations, rules=every, cliques=tuple(cliques))
    return SupportedProgram(program, tuple(watched))


def _to_watch(
    clique: Clique, relations: Mapping[str, RelationInfo]
) -> list[tuple[tuple[str, ...], list[CoreRule]]]:
    """The rules to watch, by what tells their solutions apart.

    Ways through an `if` are one rule: a solution may go over from one to another.
    """
    found: dict[tuple[str, int, tuple[str, ...]], list[CoreRule]] = {}
    for rule in clique.recursive_rules if clique.is_recursive else ():
        if any(function in _TOTALS for function in relations[rule.head].aggregates):
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
    changing = _changing(rule, clique, relations)
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


def _changing(
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
            apart(f"{kind}_{first.head}_{first.number}", taken)
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
