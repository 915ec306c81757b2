"""What shapes are made of: the parts that recursive rules fall into, as plain data.

`recognise` (recognise.py) makes them of rules, `evaluated` (evaluate.py) goes by them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from caladan.analysis.core import CoreAtom, CoreRule, RelationInfo, Term
from caladan.program import Comparison, Expression, Variable

Literal: TypeAlias = CoreAtom | Comparison


def atom_rules(rule: CoreRule, literals: Iterable[Literal]) -> list[CoreRule]:
    """Rules for all facts of the atoms among some literals of a rule."""
    return [
        replace(
            rule,
            arguments=tuple(map(Variable, dict.fromkeys(atom.variables))),
            atoms=(replace(atom, negated=False),),
            comparisons=(),
        )
        for atom in literals
        if isinstance(atom, CoreAtom)
    ]


@dataclass(frozen=True, slots=True)
class Link:
    """Pairs of tuples: a rule whose head has the columns of the left ones, then of the right.

    Where no literal is left to solve there is no rule, and one pair without columns. A link that
    `multiplies` may have more pairs than an atom of it has facts.
    """

    rule: CoreRule | None
    left: int
    multiplies: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """A recursive rule that carries some columns and steps the others, by links.

    `pattern` and `head` are what the recursive atom and the head have in the stepping columns; the
    links lead from the variables `read` of the one to the variables `made` of the other. `carried`
    is what the atom has in the carried columns. The rule applies where `condition` holds, literals
    of these alone; `leaving` and `arriving` are literals of these and of one end of the step, and
    `along` of these and the variables `middle`, which are then a place between two links. Without
    links it hands facts on to another relation as they are, where the literals `among` hold.
    Variables `looked` up are found by the condition, and tested as if they were carried.
    """

    rule: CoreRule
    source: str
    target: str
    pattern: tuple[Term, ...]
    head: tuple[Expression, ...]
    read: tuple[str, ...]
    made: tuple[str, ...]
    links: tuple[Link, ...]
    carried: tuple[Term, ...] = ()
    condition: tuple[Literal, ...] = ()
    leaving: tuple[Literal, ...] = ()
    arriving: tuple[Literal, ...] = ()
    along: tuple[Literal, ...] = ()
    middle: tuple[str, ...] = ()
    among: tuple[Literal, ...] = ()
    looked: tuple[str, ...] = ()

    @property
    def is_tested(self) -> bool:
        """Whether some literal connects what is carried with a step."""
        return bool(self.leaving or self.arriving or self.along)

    @property
    def is_open(self) -> bool:
        """Whether the rule applies to whatever is carried."""
        names = {t.name for t in self.carried if isinstance(t, Variable)}
        return not self.condition and len(names) == len(self.carried)

    @property
    def tests(self) -> list[CoreRule]:
        """What is solved for the atoms among these literals: all their facts, if they are few."""
        return atom_rules(self.rule, (*self.leaving, *self.arriving, *self.along))

    @property
    def is_plain(self) -> bool:
        """Whether every fact of the source steps, by what it has in its stepping columns."""
        names = tuple(a.name for a in self.pattern if isinstance(a, Variable))
        return names == self.read and len(names) == len(self.pattern) == len(set(names))

    @property
    def rules(self) -> tuple[CoreRule, ...]:
        """What is solved before the shape starts."""
        return tuple(link.rule for link in self.links if link.rule is not None)

    def conditions(self, relation: str, columns: Sides, info: RelationInfo) -> CoreRule:
        """The carried tuples of a relation that the rule applies to, and what it looks up."""
        types = dict(self.rule.types)
        fresh = [Variable(f"{column.name}'") for column in info.columns]
        arguments: list[Term] = list(fresh)
        comparisons: list[Comparison] = []
        for i, term in zip(columns.carried, self.carried, strict=True):
            if isinstance(term, Variable) and term not in arguments:
                arguments[i] = term
            else:
                comparisons.append(Comparison("=", fresh[i], term))
        named = zip(fresh, info.columns, strict=True)
        types |= {each.name: column.type for each, column in named if each in arguments}
        atoms = tuple(each for each in self.condition if isinstance(each, CoreAtom))
        comparisons += [each for each in self.condition if isinstance(each, Comparison)]
        return replace(
            self.rule,
            arguments=(*(arguments[i] for i in columns.carried), *map(Variable, self.looked)),
            atoms=(CoreAtom(relation, tuple(arguments)), *atoms),
            comparisons=tuple(comparisons),
            types=types,
        )


@dataclass(frozen=True, slots=True)
class Sides:
    """The columns that are carried, and those that step."""

    carried: tuple[int, ...]
    stepping: tuple[int, ...]

    @property
    def turned(self) -> Sides:
        """The other way round."""
        return Sides(self.stepping, self.carried)


@dataclass(frozen=True, slots=True)
class Reached:
    """Unary relations that spread along pairs."""

    relations: tuple[str, ...]
    steps: tuple[Step, ...]

    name = "reached"
    layouts = ("words",)

    @property
    def rules(self) -> tuple[CoreRule, ...]:
        """What is solved before the shape starts."""
        return tuple(rule for step in self.steps for rule in step.rules)


@dataclass(frozen=True, slots=True)
class Carried:
    """Relations whose recursive rules carry the columns of one side and step those of the other.

    Rules of `back` do it the other way round, a rule that `doubles` joins the relation with itself,
    and one that `swaps` exchanges its columns; all only where there is one relation. With `exits`,
    a doubling rule was made one that steps by exit facts: rounds would be fewer than steps. Those
    exit rules that read closures are `entries`: steps from what is carried to where it starts.
    """

    relations: tuple[str, ...]
    sides: Sides
    steps: tuple[Step, ...]
    back: tuple[Step, ...] = ()
    doubles: bool = False
    swaps: bool = False
    exits: bool = False
    entries: tuple[Step, ...] = ()

    name = "carried"
    layouts = ("ranges", "bit rows")

    @property
    def rules(self) -> tuple[CoreRule, ...]:
        """What is solved before the shape starts."""
        return tuple(rule for step in (*self.steps, *self.back) for rule in step.rules)


@dataclass(frozen=True, slots=True)
class Pace:
    """A rule that steps two columns, by pairs of words; None for a side that it hands on as it is.

    `body` and `head` are the variables of the two in its atom and in its head, `stays` what it has
    in the columns that stay. If it keeps the two `apart`, they are never alike; literals `leaving`
    read both of the body, those `arriving` the head's.
    """

    rule: CoreRule
    body: tuple[str, ...]
    head: tuple[str, ...]
    stays: tuple[Term, ...]
    left: CoreRule | None
    right: CoreRule | None
    apart: bool
    leaving: tuple[Literal, ...]
    arriving: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Generations:
    """A relation whose recursive rules step two columns independently; others stay.

    If it `swaps`, a rule exchanges the two.
    """

    relation: str
    columns: tuple[int, int]
    stays: tuple[int, ...]
    paces: tuple[Pace, ...]
    swaps: bool

    name = "generations"
    layouts = ("bit rows",)

    @property
    def is_even(self) -> bool:
        """Whether every rule steps both columns."""
        return all(p.left is not None and p.right is not None for p in self.paces)

    @property
    def rules(self) -> tuple[CoreRule, ...]:
        """What is solved before the shape starts."""
        sides = (side for pace in self.paces for side in (pace.left, pace.right))
        return tuple(side for side in sides if side is not None)


@dataclass(frozen=True, slots=True)
class WeightedStep:
    """A rule for the pairs of tuples that a step leads from and to, and what it adds to a value.

    That is an expression of the variables `read`, the last columns of the rule's head; the `widest`
    takes the place of the value if it is worse. The step leaves values no worse than `leaves` and
    arrives with none worse than `arrives`, with the sign that makes the best the least.
    """

    step: Step
    rule: CoreRule
    weight: Expression
    read: tuple[str, ...]
    is_widest: bool
    leaves: float
    arrives: float


@dataclass(frozen=True, slots=True)
class Distances:
    """A relation that keeps the least or largest sum along steps, for what is carried."""

    relation: str
    sides: Sides
    column: int
    smallest: bool
    steps: tuple[WeightedStep, ...]

    name = "distances"
    layouts = ("packed keys", "rows")

    @property
    def rules(self) -> tuple[CoreRule, ...]:
        """What is solved before the shape starts."""
        return tuple(step.rule for step in self.steps)


Shape: TypeAlias = Reached | Carried | Generations | Distances
