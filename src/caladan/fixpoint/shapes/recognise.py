"""Which cliques have a special structure: decided from the rules, before any data is seen.

`recognise` looks at the recursive rules of a clique of plain relations.

    Reached      p(Y) <- q(X), step(X, Y)
    Carried      p(X, Z) <- q(X, Y), step(Y, Z)           carries X
                 p(X, Z) <- step(X, Y), q(Y, Z)           carries Z
                 p(X, Z) <- p(X, Y), p(Y, Z)              doubles
    Generations  p(X, Y) <- l(A, X), p(A, B), r(B, Y)     steps both
    Distances    p(X, Z, mmin<D>) <- p(X, Y, E), step(Y, Z, W), D = E + W

p and q are relations of the clique, the same one or others: odd and even, or the states of a
regular path query. X, Y and Z of `Carried` stand for any number of columns, of any types, some of
them constants. `step`, `l` and `r` stand for whatever else the body holds: one atom or several,
negations and comparisons, as long as it falls apart along the variables as shown. Each becomes a
rule of its own (`CoreRule`), which the generic evaluator solves before the shape starts: a step
along a path of atoms, `a(Y, W), b(W, Z)`, becomes several `links`, which are never joined. Literals
on the carried columns alone, such as the demand of a bound query or `X > 10`, are a condition on
the facts that a rule applies to; those that connect the carried columns with one end of a step,
such as `X ~= Z`, are tested as it is taken. Exit rules may be of any kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from caladan.analysis.core import CoreAtom, CoreRule, RelationInfo, Term
from caladan.columns.ranks import Kind, kind_of
from caladan.program import (
    Aggregate,
    Arithmetic,
    Comparison,
    Constant,
    Expression,
    Variable,
    variables,
)
from caladan.rules.program import DeltaClique

Literal: TypeAlias = CoreAtom | Comparison


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
    of these alone; `leaving` and `arriving` are literals of these and of one end of the step.
    """

    rule: CoreRule
    source: str
    target: str
    pattern: tuple[Term, ...]
    head: tuple[Term, ...]
    read: tuple[str, ...]
    made: tuple[str, ...]
    links: tuple[Link, ...]
    carried: tuple[Term, ...] = ()
    condition: tuple[Literal, ...] = ()
    leaving: tuple[Literal, ...] = ()
    arriving: tuple[Literal, ...] = ()

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
        """The carried tuples among a relation's facts that the rule applies to."""
        types = dict(self.rule.types)
        arguments: list[Term] = [Variable(f"{i}'") for i in range(info.arity)]
        comparisons: list[Comparison] = []
        for i, term in zip(columns.carried, self.carried, strict=True):
            if isinstance(term, Variable) and term not in arguments:
                arguments[i] = term
            else:
                comparisons.append(Comparison("=", Variable(f"{i}'"), term))
        fresh = [(f"{i}'", column.type) for i, column in enumerate(info.columns)]
        types |= {name: type for name, type in fresh if Variable(name) in arguments}
        atoms = tuple(each for each in self.condition if isinstance(each, CoreAtom))
        comparisons += [each for each in self.condition if isinstance(each, Comparison)]
        return replace(
            self.rule,
            arguments=tuple(arguments[i] for i in columns.carried),
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

    Rules of `back` do it the other way round, and a rule that `doubles` joins the relation with
    itself; both only where there is one relation.
    """

    relations: tuple[str, ...]
    sides: Sides
    steps: tuple[Step, ...]
    back: tuple[Step, ...] = ()
    doubles: bool = False

    name = "carried"
    layouts = ("ranges", "bit rows")

    @property
    def rules(self) -> tuple[CoreRule, ...]:
        """What is solved before the shape starts."""
        return tuple(rule for step in (*self.steps, *self.back) for rule in step.rules)


@dataclass(frozen=True, slots=True)
class Pace:
    """A rule that steps both columns; if it keeps them `apart`, they are never alike."""

    left: CoreRule
    right: CoreRule
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Generations:
    """A binary relation whose recursive rules step both columns independently."""

    relation: str
    paces: tuple[Pace, ...]

    name = "generations"
    layouts = ("bit rows",)

    @property
    def rules(self) -> tuple[CoreRule, ...]:
        """What is solved before the shape starts."""
        return tuple(rule for pace in self.paces for rule in (pace.left, pace.right))


@dataclass(frozen=True, slots=True)
class WeightedStep:
    """A rule for the pairs of tuples that a step leads from and to, and what it adds to a value.

    It adds a variable, which is the last column of the rule's head, or always the same weight.
    """

    rule: CoreRule
    variable: str | None
    weight: int


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


def recognise(clique: DeltaClique, relations: Mapping[str, RelationInfo]) -> Shape | None:
    """The shape of a clique, if it has one."""
    infos = [relations[name] for name in clique.relations]
    arity = infos[0].arity
    rules = _distinct(d.rule for d in clique.delta_rules)
    if not clique.is_recursive or any(rule.order or rule.limit is not None for rule in rules):
        return None
    if not all(_is_of_one_kind(rule, relations) for rule in rules):
        return None
    if len(infos) == 1 and infos[0].has_aggregates:
        return _distances(infos[0], rules)
    if any(i.has_aggregates or i.arity != arity for i in infos):
        return None
    if arity == 1:
        return _reached(clique.relations, rules)
    if arity == 2 and (found := _generations(clique.relations, rules)) is not None:
        return found
    return _carried(clique.relations, rules, arity)


def _is_of_one_kind(rule: CoreRule, relations: Mapping[str, RelationInfo]) -> bool:
    """Whether variables have the kind of all columns they stand in: words can be compared."""
    places = [(atom.relation, atom.arguments) for atom in rule.atoms]
    return all(
        kind_of(rule.types[argument.name]) is kind_of(column.type)
        for name, arguments in (*places, (rule.head, rule.arguments))
        for argument, column in zip(arguments, relations[name].columns, strict=True)
        if isinstance(argument, Variable) and not argument.is_anonymous
    )


def _reached(relations: tuple[str, ...], rules: list[CoreRule]) -> Reached | None:
    steps = [_step(rule, relations, Sides((), (0,))) for rule in rules]
    found = tuple(step for step in steps if step is not None)
    return Reached(relations, found) if len(found) == len(rules) else None


def _carried(relations: tuple[str, ...], rules: list[CoreRule], arity: int) -> Carried | None:
    doubling = [r for r in rules if len(relations) == 1 and _doubles(r, relations[0])]
    linear = [r for r in rules if all(r is not other for other in doubling)]
    for sides in _possible_sides(relations, linear, arity):
        steps = [_step(rule, relations, sides) for rule in linear]
        back = [
            _step(rule, relations, sides.turned) if step is None else None
            for rule, step in zip(linear, steps, strict=True)
        ]
        if any(s is None and b is None for s, b in zip(steps, back, strict=True)):
            continue
        behind = tuple(step for step in back if step is not None)
        if behind and len(relations) > 1:
            continue
        ahead = tuple(step for step in steps if step is not None)
        return Carried(relations, sides, ahead, behind, bool(doubling))
    return None


def _possible_sides(
    relations: tuple[str, ...], rules: list[CoreRule], arity: int
) -> Iterable[Sides]:
    """The ways to part the columns, those first that all rules agree upon."""
    carried = [_carried_columns(rule, relations) for rule in rules]
    if not carried:
        return [Sides((0,), (1,))] if arity == 2 else []
    shared = frozenset(range(arity)).intersection(*carried)
    options = [shared, *carried, *(frozenset(range(arity)) - each for each in carried)]
    return [
        Sides(tuple(sorted(each)), tuple(c for c in range(arity) if c not in each))
        for each in dict.fromkeys(options)
        if 0 < len(each) < arity
    ]


def _carried_columns(rule: CoreRule, relations: tuple[str, ...]) -> frozenset[int]:
    """The columns that a rule with one recursive atom hands on as they are."""
    mine = [a for a in rule.atoms if a.relation in relations]
    if len(mine) != 1:
        return frozenset()
    before, after = mine[0].arguments, rule.arguments
    return frozenset(
        i
        for i, (one, other) in enumerate(zip(before, after, strict=True))
        if one == other and (isinstance(one, Constant) or before.count(one) == 1)
    )


def _generations(relations: tuple[str, ...], rules: list[CoreRule]) -> Generations | None:
    if len(relations) != 1 or not all(map(_is_plain, rules)):
        return None
    found = [_both(rule, relations[0]) for rule in rules]
    paces = tuple(pace for pace in found if pace is not None)
    return Generations(relations[0], paces) if len(paces) == len(found) else None


def _distinct(rules: Iterable[CoreRule]) -> list[CoreRule]:
    """A rule with several recursive atoms has several delta rules."""
    found: list[CoreRule] = []
    for rule in rules:
        if not any(rule is other or rule == other for other in found):
            found.append(rule)
    return found


def _is_plain(rule: CoreRule) -> bool:
    """Whether the head consists of different variables."""
    names = [a.name for a in rule.arguments if isinstance(a, Variable)]
    return len(names) == len(rule.arguments) == len(set(names))


def _names(*literals: Literal) -> frozenset[str]:
    return frozenset(
        name
        for literal in literals
        for name in (
            literal.variables
            if isinstance(literal, CoreAtom)
            else (v.name for v in variables(literal))
        )
    )


def _named(terms: Iterable[object]) -> tuple[str, ...]:
    """The variables among some terms, each once."""
    return tuple(dict.fromkeys(t.name for t in terms if isinstance(t, Variable)))


def _without(literals: Iterable[Literal], some: Iterable[Literal]) -> list[Literal]:
    gone = list(some)
    return [each for each in literals if all(each is not other for other in gone)]


def _connected(
    literals: list[Literal], start: Iterable[str], stop: str = ""
) -> tuple[list[Literal], set[str]]:
    """The literals that share variables with `start`, directly or through each other.

    Sharing `stop` does not count, but the names found include it.
    """
    names = set(start)
    inside: list[Literal] = []
    rest = list(literals)
    grown = True
    while grown:
        grown = False
        for literal in list(rest):
            if _names(literal) & (names - {stop}):
                names |= _names(literal)
                inside.append(literal)
                rest.remove(literal)
                grown = True
    return inside, names


# ── Steps ────────────────────────────────────────────────────────────────────────────────────────


def _step(rule: CoreRule, relations: tuple[str, ...], sides: Sides) -> Step | None:
    """A rule that carries the one side and steps the other; None if it does something else."""
    mine = [a for a in rule.atoms if a.relation in relations]
    if len(mine) != 1 or mine[0].negated:
        return None
    (atom,) = mine
    carried = tuple(atom.arguments[i] for i in sides.carried)
    if carried != tuple(rule.arguments[i] for i in sides.carried):
        return None
    pattern = tuple(atom.arguments[i] for i in sides.stepping)
    head = tuple(rule.arguments[i] for i in sides.stepping)
    terms = tuple(t for t in head if isinstance(t, Variable | Constant))
    kept, before, after = _named(carried), _named(pattern), _named(terms)
    apart = not {*kept} & {*before, *after} and len(kept) == sum(
        isinstance(t, Variable) for t in carried
    )
    if len(terms) < len(head) or not apart or pattern == head:
        return None
    literals: list[Literal] = [a for a in rule.atoms if a is not atom]
    literals += rule.comparisons
    leaving = _bridges(literals, kept, before)
    arriving = _bridges(_without(literals, leaving), kept, after)
    rest = _without(literals, (*leaving, *arriving))
    condition, names = _connected(rest, kept)
    if names & {*before, *after}:
        return None
    rest = _without(rest, condition)
    read = tuple(name for name in before if name in _names(*rest) or name in after)
    links = _links(rule, rest, read, after)
    if links is None:
        return None
    return Step(
        rule, atom.relation, rule.head, pattern, terms, read, after, links,
        carried, tuple(condition), tuple(leaving), tuple(arriving),
    )  # fmt: skip


def _bridges(literals: list[Literal], kept: tuple[str, ...], end: tuple[str, ...]) -> list[Literal]:
    """The literals that have variables of the carried side and of one end of a step, no others."""
    return [
        each
        for each in literals
        if _names(each) & {*kept} and _names(each) & {*end} and _names(each) <= {*kept, *end}
    ]


def _solved(rule: CoreRule, literals: list[Literal], head: tuple[str, ...]) -> CoreRule | None:
    """A rule for some literals alone; every head variable must stand in one of its atoms."""
    atoms = tuple(a for a in literals if isinstance(a, CoreAtom))
    bound = {name for a in atoms if not a.negated for name in a.variables}
    if not bound.issuperset(head):
        return None
    return replace(
        rule,
        arguments=tuple(Variable(name) for name in head),
        atoms=atoms,
        comparisons=tuple(c for c in literals if isinstance(c, Comparison)),
    )


def _links(
    rule: CoreRule, literals: list[Literal], source: tuple[str, ...], target: tuple[str, ...]
) -> tuple[Link, ...] | None:
    """A path of pairs from source to target, cut wherever one variable alone connects its parts."""
    if len(source) == len(target) == 1 and source != target:
        for cut in dict.fromkeys(n for each in literals for n in sorted(_names(each))):
            near, names = _connected(literals, source, stop=cut)
            if cut in (*source, *target) or target[0] in names or cut not in names:
                continue
            far = _without(literals, near)
            first = _links(rule, near, source, (cut,))
            second = _links(rule, far, (cut,), target)
            if first is not None and second is not None:
                return first + second
    near, names = _connected(literals, source)
    if not names & {*target}:
        # Nothing connects the two: whatever can leave goes wherever can be arrived at.
        ends = _link(rule, near, source, ()), _link(rule, _without(literals, near), (), target)
        return None if ends[0] is None or ends[1] is None else (ends[0], ends[1])
    whole = _link(rule, literals, source, target)
    return None if whole is None else (whole,)


def _link(
    rule: CoreRule, literals: list[Literal], source: tuple[str, ...], target: tuple[str, ...]
) -> Link | None:
    if not source and not target:
        return None if literals else Link(None, 0)
    solved = _solved(rule, literals, (*source, *target))
    if solved is None:
        return None
    wanted = {*source, *target}
    holds = any(isinstance(a, CoreAtom) and wanted <= {*a.variables} for a in literals)
    return Link(solved, len(source), not holds)


# ── Both columns at once ─────────────────────────────────────────────────────────────────────────


def _both(rule: CoreRule, relation: str) -> Pace | None:
    mine = [a for a in rule.atoms if a.relation == relation]
    if len(mine) != 1 or len(_named(mine[0].arguments)) != 2:
        return None
    body, head = _named(mine[0].arguments), _named(rule.arguments)
    unlike = [
        c
        for c in rule.comparisons
        if c.operator == "~=" and {c.left, c.right} == {Variable(name) for name in head}
    ]
    literals: list[Literal] = [a for a in rule.atoms if a is not mine[0]]
    literals += _without(rule.comparisons, unlike)
    if set(head) & set(body):
        return None
    on_left, names = _connected(literals, {body[0], head[0]})
    if names & {body[1], head[1]}:
        return None
    left = _linked(rule, on_left, body[0], head[0])
    right = _linked(rule, _without(literals, on_left), body[1], head[1])
    return Pace(left, right, bool(unlike)) if left and right else None


def _linked(rule: CoreRule, literals: list[Literal], source: str, target: str) -> CoreRule | None:
    """The pairs of a source and a target that stand in one atom, restricted by all literals."""
    for literal in literals:
        if isinstance(literal, CoreAtom) and {source, target} <= _names(literal):
            return _solved(rule, literals, (source, target))
    return None


# ── Sums along steps ─────────────────────────────────────────────────────────────────────────────


def _distances(info: RelationInfo, rules: list[CoreRule]) -> Distances | None:
    best = [i for i, function in enumerate(info.aggregates) if function is not None]
    if len(best) != 1 or info.aggregates[best[0]] not in ("mmin", "mmax"):
        return None
    (column,) = best
    if kind_of(info.columns[column].type) is not Kind.INTEGER:
        return None
    shared = frozenset(info.group).intersection(
        *(_carried_columns(rule, (info.name,)) for rule in rules)
    )
    sides = Sides(tuple(sorted(shared)), tuple(c for c in info.group if c not in shared))
    if not sides.carried or not sides.stepping:
        return None
    found = [_weighted(rule, info.name, sides, column) for rule in rules]
    steps = tuple(step for step in found if step is not None)
    if len(steps) < len(found):
        return None
    return Distances(info.name, sides, column, info.aggregates[column] == "mmin", steps)


def _weighted(rule: CoreRule, relation: str, sides: Sides, column: int) -> WeightedStep | None:
    """A rule that adds to a value as it steps, and reads it for nothing else."""
    mine = [a for a in rule.atoms if a.relation == relation]
    argument = rule.arguments[column]
    if len(mine) != 1 or mine[0].negated or not isinstance(argument, Aggregate):
        return None
    (atom,) = mine
    value = atom.arguments[column]
    if len(argument.terms) != 1 or not isinstance(value, Variable):
        return None
    literals = _without([*rule.atoms, *rule.comparisons], [atom])
    added = argument.terms[0]
    if isinstance(added, Variable) and added != value:
        binding = [c for c in rule.comparisons if c.operator == "=" and added in (c.left, c.right)]
        if len(binding) != 1:
            return None
        literals = _without(literals, binding)
        if added.name in _names(*literals):
            return None
        added = binding[0].right if binding[0].left == added else binding[0].left
    weight = _weight(added, value)
    ends = (
        _named(atom.arguments[i] for i in sides.stepping),
        _named(rule.arguments[i] for i in sides.stepping),
    )
    carried = _named(atom.arguments[i] for i in sides.carried)
    named = len(carried) == len(sides.carried) and all(
        len(end) == len(sides.stepping) for end in ends
    )
    if weight is None or not named or {value.name, *carried} & {*_names(*literals), *ends[1]}:
        return None
    variable = weight.name if isinstance(weight, Variable) else None
    if variable is not None and kind_of(rule.types[variable]) is not Kind.INTEGER:
        return None
    solved = _solved(rule, literals, (*ends[0], *ends[1], *([variable] if variable else [])))
    if solved is None or {value.name, *carried} & {*ends[0]}:
        return None
    return WeightedStep(solved, variable, 0 if isinstance(weight, Variable) else weight)


def _weight(added: Expression, value: Variable) -> Variable | int | None:
    """What is added to a value: a variable, or a number."""
    if added == value:
        return 0
    if not isinstance(added, Arithmetic) or added.operator not in ("+", "-"):
        return None
    left, right = added.left, added.right
    if added.operator == "+" and right == value:
        left, right = right, left
    if left != value or right == value:
        return None
    if isinstance(right, Variable):
        return right if added.operator == "+" else None
    if isinstance(right, Constant) and type(right.value) is int:
        return right.value if added.operator == "+" else -right.value
    return None


def _doubles(rule: CoreRule, relation: str) -> bool:
    """p(X, Z) <- p(X, Y), p(Y, Z), in either order of the atoms, and nothing else."""
    if rule.comparisons or len(rule.atoms) != len(rule.arguments) or len(rule.atoms) != 2:
        return False
    if any(a.relation != relation or a.negated for a in rule.atoms):
        return False
    x, z = rule.arguments
    for first, second in (rule.atoms, rule.atoms[::-1]):
        middle = first.arguments[1]
        if (
            isinstance(x, Variable)
            and isinstance(z, Variable)
            and x != z
            and isinstance(middle, Variable)
            and middle not in (x, z)
            and first.arguments[0] == x
            and second.arguments == (middle, z)
        ):
            return True
    return False
