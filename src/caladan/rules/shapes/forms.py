"""What shapes are made of: the parts that recursive rules fall into, as plain data.

`recognise` (recognise.py) makes them of rules, `evaluated` (fixpoint/shapes/evaluate.py) goes by
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from caladan.analysis.core import CoreAtom, CoreRule, RelationInfo, Term
from caladan.program import Comparison, Expression, Variable
from caladan.rules.shapes.literals import Literal, atom_rules, body_rule, literal_names


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
    `along` of these and the variables `middle`, which are then a place between two links. All
    other literals are the `rest`, which links are made of. Without links it hands facts on to
    another relation as they are, where the rest holds; or it `explores`: what it makes depends on
    more of what it leaves than links could tell before that is known, as `N + 1` does, or a column
    that stays. Variables `looked` up are found by the condition, and tested as if carried.
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
    rest: tuple[Literal, ...] = ()
    looked: tuple[str, ...] = ()
    explores: bool = False

    @property
    def is_round(self) -> bool:
        """Whether a round of the rule is one edge."""
        return (self.explores and not self.along) or (self.is_plain and len(self.links) == 1)

    @property
    def is_tested(self) -> bool:
        """Whether some literal connects what is carried with a step."""
        return bool(self.leaving or self.arriving or self.along)

    @property
    def moves(self) -> bool:
        """Whether it leads anywhere else."""
        return self.pattern != self.head

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
        rules = [self.atoms[0]] if self.explores else [link.rule for link in self.links]
        return tuple(rule for rule in rules if rule is not None)

    @property
    def atoms(self) -> tuple[CoreRule | None, tuple[Literal, ...]]:
        """A rule for all of the rest that its own atoms bind, and literals that they do not bind.

        Its head has variables of the pattern first. There is none if there are no atoms.
        """
        atoms = [a for a in self.rest if isinstance(a, CoreAtom) and not a.negated]
        if not atoms:
            return None, self.rest
        inside = {name for atom in atoms for name in atom.variables}
        mine = tuple(each for each in self.rest if literal_names(each) <= inside)
        late = tuple(each for each in self.rest if not literal_names(each) <= inside)
        wanted = literal_names(*late) | {*self.read, *self.made, *self.middle}
        head = [*(n for n in self.read if n in inside), *sorted(inside & wanted - {*self.read})]
        return body_rule(self.rule, mine, head or sorted(inside)), late

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
    def both(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The two, one after the other."""
        return self.carried, self.stepping

    @property
    def turned(self) -> Sides:
        """The other way round."""
        return Sides(self.stepping, self.carried)


@dataclass(frozen=True, slots=True)
class Reachability:
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
class Closure:
    """Relations whose recursive rules carry the columns of one side and step those of the other.

    Each has `sides` of its own: the same columns, or those that rules put the same values in.
    Rules of `back` do it the other way round, a rule that `doubles` joins the relation with itself,
    and one that `swaps` exchanges its columns; all only where there is one relation. With `exits`,
    a doubling rule was made one that steps by exit facts: rounds would be fewer than steps. Those
    exit rules that read closures are `entries`: steps from what is carried to where it starts.
    """

    relations: tuple[str, ...]
    sides: Mapping[str, Sides]
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


Terms: TypeAlias = tuple[tuple[Expression, ...], tuple[Expression, ...]]


@dataclass(frozen=True, slots=True)
class Pace:
    """A rule that steps both sides of a relation, each by itself; None for one that stays.

    `body` and `head` are the terms of the two in its atom and in its head. If it `crosses`, the
    first side of the head comes from the second of the atom. A rule with another recursive atom,
    of relation `second`, joins: the second side of its first atom steps to the first side of that.
    If it keeps the two `apart`, they are never alike; literals `leaving` read both sides of the
    body, those `arriving` the head's. If it `rises`, it only joins, and what it tests, such as
    X < Z, holds of what it joins if it holds of both.
    """

    rule: CoreRule
    source: str
    body: Terms
    head: Terms
    left: Step | None
    right: Step | None
    apart: bool
    leaving: tuple[Literal, ...]
    arriving: tuple[Literal, ...]
    crosses: bool = False
    second: str | None = None
    rises: bool = False


@dataclass(frozen=True, slots=True)
class Generations:
    """Relations with two sides, which recursive rules step independently, exchange or join."""

    sides: Mapping[str, Sides]
    paces: tuple[Pace, ...]

    name = "generations"

    @property
    def layouts(self) -> tuple[str, ...]:
        """What it may leave; a relation that rises may be a closure."""
        return ("bit rows", "ranges") if self.rises else ("bit rows",)

    @property
    def rises(self) -> bool:
        """Whether its only rule does, so that all facts may have what is tested."""
        return len(self.paces) == len(self.sides) == 1 and self.paces[0].rises

    @property
    def relations(self) -> tuple[str, ...]:
        """The relations, in the order of their rows."""
        return tuple(self.sides)

    @property
    def is_even(self) -> bool:
        """Whether rules step both sides by atoms, or exchange them; one column at most stays."""
        steps = [step for p in self.paces if not p.crosses for step in (p.left, p.right)]
        moves = all(s is not None and s.moves and s.atoms[0] is not None for s in steps)
        return bool(steps) and moves and all(len(s.carried) < 3 for s in self.sides.values())

    @property
    def is_uneven(self) -> bool:
        """Whether some rules step the one side only, and some the other."""
        moves = {tuple(s is not None and s.moves for s in (p.left, p.right)) for p in self.paces}
        return moves >= {(True, False), (False, True)}

    @property
    def is_square(self) -> bool:
        """Whether what stands on one side comes to stand on the other."""
        return any(pace.crosses or pace.second for pace in self.paces)

    @property
    def rules(self) -> tuple[CoreRule, ...]:
        """What is solved before the shape starts."""
        sides = (side for pace in self.paces for side in (pace.left, pace.right))
        return tuple(rule for side in sides if side is not None for rule in side.rules)


@dataclass(frozen=True, slots=True)
class WeightedStep:
    """A rule for the pairs of tuples that a step leads from and to, and what it adds to a value.

    That is an expression of the variables `read`, the last columns of the rule's head; the `widest`
    takes the place of the value if it is worse. The step leaves values no worse than `leaves` and
    arrives with none worse than `arrives`, with the sign that makes the best the least; None: any.
    """

    step: Step
    rule: CoreRule
    weight: Expression
    read: tuple[str, ...]
    is_widest: bool
    leaves: float | None
    arrives: float | None

    @property
    def is_unconditional(self) -> bool:
        """Whether it adds something to whatever value of whatever is carried."""
        is_limited = self.leaves is not None or self.arrives is not None
        return self.step.is_open and not (self.step.is_tested or self.is_widest or is_limited)


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


@dataclass(frozen=True, slots=True)
class LabelStep:
    """A rule that hands a label on along a step, if it is no worse than `most`; None: any."""

    step: Step
    most: float | None


@dataclass(frozen=True, slots=True)
class Labels:
    """A relation that keeps, for each group, the least or largest label that steps bring to it."""

    relation: str
    stepping: tuple[int, ...]
    column: int
    smallest: bool
    steps: tuple[LabelStep, ...]

    name = "labels"
    layouts = ("packed keys", "rows")

    @property
    def rules(self) -> tuple[CoreRule, ...]:
        """What is solved before the shape starts."""
        return tuple(rule for each in self.steps for rule in each.step.rules)


Shape: TypeAlias = Reachability | Closure | Generations | Distances | Labels
