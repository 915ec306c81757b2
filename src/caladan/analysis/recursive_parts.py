"""The parts of a recursion: what its rules are to each other, if some columns are bound.

The rules of a relation are

    exit      do not read it
    carrying  read it once; what is bound stays as it is, and nothing else looks at it
    moving    read it once; what is free stays, and nothing else in the rule looks at it; but where
              only one rule reads the relation, comparisons of nothing else are made at the end
    joining   read it twice, end to end, and nothing else

`direction.py` makes other rules of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from caladan.analysis.core import CoreAtom, CoreRule, RelationInfo
from caladan.program import (
    Aggregate,
    Arithmetic,
    Comparison,
    Constant,
    Expression,
    Variable,
    names,
    variables,
)
from caladan.program.aggregates import is_recursive_best, row_of
from caladan.program.transform import replace_in


@dataclass(frozen=True, slots=True)
class RulePart:
    """A rule without what it reads of its own relation.

    `read` are those atoms, `value` is what an aggregate takes besides their values; comparisons
    `of_free` look only at what is free.
    """

    rule: CoreRule
    read: tuple[CoreAtom, ...]
    atoms: tuple[CoreAtom, ...]
    comparisons: tuple[Comparison, ...]
    value: Expression | None
    of_free: tuple[Comparison, ...] = ()

    @property
    def uses(self) -> Counter[str]:
        """How often each variable stands somewhere, but for the value of what is read."""
        seen = (self.rule.arguments, self.read, self.atoms, self.comparisons)
        return Counter(v.name for v in variables(*seen))


class RecursiveParts:
    """What the rules of one relation are, if some of its columns are bound."""

    def __init__(self, info: RelationInfo, pattern: str) -> None:
        self.info = info
        self.bound = tuple(i for i, letter in enumerate(pattern) if letter == "b")
        self.free = tuple(i for i in info.group if i not in self.bound)
        values = [i for i in range(info.arity) if i not in info.group]
        self.value = values[0] if values else None
        self.can_add = not values or (
            len(values) == 1
            and is_recursive_best(row := info.aggregates[values[0]])
            and "+" in row.distributes_over
            and info.columns[values[0]].type.is_integral
        )

    def part(self, rule: CoreRule) -> RulePart | None:
        """A rule taken apart; None if it is none of these."""
        read = tuple(a for a in rule.atoms if a.relation == self.info.name)
        atoms = tuple(a for a in rule.atoms if a.relation != self.info.name)
        if len(read) > 2 or any(atom.negated for atom in read):
            return None
        if self.value is None:
            return RulePart(rule, read, atoms, rule.comparisons, None)
        aggregate = rule.arguments[self.value]
        if not isinstance(aggregate, Aggregate) or len(aggregate.terms) != 1:
            return None
        value, comparisons = _spelled_out(aggregate.terms[0], rule)
        arguments = tuple(
            row_of(aggregate).of((value,)) if i == self.value else argument
            for i, argument in enumerate(rule.arguments)
        )
        rule = replace(rule, arguments=arguments)
        part = RulePart(rule, read, atoms, comparisons, value)
        added = summands(value)
        for atom in read:
            before = atom.arguments[self.value]
            if before not in added or part.uses[getattr(before, "name", "")] != 2:
                return None  # no sum, or something else looks at what is added up
            added.remove(before)
        if any(t is not None and not t.is_integral for t in map(rule.types.get, names(value))):
            return None
        return replace(part, value=total(added))

    def carries(self, part: RulePart) -> bool:
        """Whether what is bound stays as it is."""
        read, head = part.read[0].arguments, part.rule.arguments
        return all(isinstance(head[i], Variable) and head[i] == read[i] for i in self.bound)

    def looks_at_bound(self, part: RulePart) -> bool:
        """Whether a carrying rule depends on what is bound: it would not do the same elsewhere."""
        uses = part.uses
        return any(uses[v.name] > 2 for i in self.bound for v in variables(part.rule.arguments[i]))

    def set_apart(self, part: RulePart) -> RulePart:
        """The rule with comparisons that look only at what is free apart from the others."""
        free = {a.name for i in self.free if isinstance(a := part.rule.arguments[i], Variable)}
        late = [c for c in part.comparisons if names(c) and names(c) <= free]
        rest = tuple(c for c in part.comparisons if c not in late)
        return replace(part, comparisons=rest, of_free=tuple(late))

    def moves(self, part: RulePart, exits: Sequence[RulePart]) -> bool:
        """Whether what is free stays, and steps end if they are taken by themselves."""
        read, head, uses = part.read[0].arguments, part.rule.arguments, part.uses
        stays = all(
            isinstance(there := head[i], Variable) and there == read[i] and uses[there.name] == 2
            for i in self.free
        )
        placed = {name for atom in part.atoms if not atom.negated for name in atom.variables}
        moved = [term for i in self.bound for term in (head[i], read[i])]
        ends = all(isinstance(t, Constant) or (isinstance(t, Variable) and t.name in placed)
                   for t in moved)  # fmt: skip
        return stays and ends and (self._grows(part) or any(self._mirrors(part, e) for e in exits))

    def _grows(self, part: RulePart) -> bool:
        """Whether what a step adds never makes a value better."""
        if self.value is None or part.value is None:
            return True
        row = self.info.aggregates[self.value]
        falls = row is not None and row.is_least
        added = summands(part.value)
        return all(
            isinstance(s, Constant)
            and s.placeholder is None
            and isinstance(s.value, int)
            and (s.value >= 0 if falls else s.value <= 0)
            for s in added
        )

    def _mirrors(self, step: RulePart, leaving: RulePart, *, whole: bool = False) -> bool:
        """Whether there is an exit wherever a step starts: its body is that of one, renamed.

        `whole`, the exit also leads where the step does, at the same price.
        """
        names: dict[str, str] = {}
        for one, other in zip(leaving.atoms, step.atoms, strict=False):
            for mine, theirs in zip(one.arguments, other.arguments, strict=False):
                if isinstance(mine, Variable) and isinstance(theirs, Variable):
                    names.setdefault(mine.name, theirs.name)
        if len(set(names.values())) != len(names):
            return False

        def renamed(node: object) -> Variable | None:
            return Variable(names.get(node.name, node.name)) if isinstance(node, Variable) else None

        starts, ends = self.at(leaving.rule.arguments)
        found = replace_in(
            [leaving.atoms, leaving.comparisons, starts, *([ends, leaving.value] if whole else [])],
            renamed,
        )
        there = self.at(step.read[0].arguments)[0]
        sought = [step.atoms, step.comparisons, self.at(step.rule.arguments)[0]]
        return found == [*sought, *([there, step.value] if whole else [])]

    def are_exits(self, moving: Sequence[RulePart], exits: Sequence[RulePart]) -> bool:
        """Whether steps are the exits, one for one."""
        return len(moving) == len(exits) and all(
            self._mirrors(step, leaving, whole=True)
            for step, leaving in zip(moving, exits, strict=True)
        )

    def joins(self, part: RulePart) -> bool:
        """Whether a rule reads its relation twice, end to end, and nothing else."""
        if part.atoms or part.comparisons or part.value is not None:
            return False
        if len(self.bound) != len(self.free):
            return False
        ends = self.at(part.rule.arguments)
        for first, second in (part.read, part.read[::-1]):
            before, after = self.at(first.arguments), self.at(second.arguments)
            if before[0] == ends[0] and before[1] == after[0] and after[1] == ends[1]:
                groups = [v for side in (*ends, before[1]) for v in side]
                names = {v.name for v in groups if isinstance(v, Variable)}
                return len(names) == len(groups)
        return False

    def at(self, arguments: Sequence[Expression]) -> tuple[list[Expression], list[Expression]]:
        """What stands in the columns that are bound, and in those that are free."""
        return [arguments[i] for i in self.bound], [arguments[i] for i in self.free]


# ── Sums ─────────────────────────────────────────────────────────────────────────────────────────


def _spelled_out(value: Expression, rule: CoreRule) -> tuple[Expression, tuple[Comparison, ...]]:
    """A value with what an equality says it is in its place, and the comparisons that are left."""
    left = rule.comparisons
    placed = {name for atom in rule.positive for name in atom.variables}
    while isinstance(value, Variable) and value.name not in placed:
        name = value.name
        said = [
            (c, other)
            for c in left
            if c.operator == "="
            for mine, other in ((c.left, c.right), (c.right, c.left))
            if mine == value and name not in names(other)
        ]
        used = sum(v.name == name for v in variables(rule.arguments, rule.atoms, left))
        if len(said) != 1 or used != 2:
            break
        ((comparison, value),) = said
        left = tuple(c for c in left if c is not comparison)
    return value, left


def summands(value: Expression | None) -> list[Expression]:
    """What is added up in an expression."""
    if value is None:
        return []
    if isinstance(value, Arithmetic) and value.operator == "+":
        return [*summands(value.left), *summands(value.right)]
    return [value]


def total(added: Sequence[Expression]) -> Expression | None:
    """The sum of some expressions, None of nothing."""
    found: Expression | None = None
    for each in added:
        found = each if found is None else Arithmetic("+", found, each)
    return found
