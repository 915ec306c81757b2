"""Direction: a recursion goes the way in which its bindings come.

What a goal binds should be carried: `query tc(1, B)` then follows arcs from 1, one fact for each
node that is found. Where the recursive rule moves the bound column instead, demand goes from node
to node, and each that is asked for has all its own answers: a square of facts for an answer that is
one row of it. So rules of a relation that is evaluated under a binding pattern are turned round
before demand looks at them, where that keeps their meaning.

    tc(A, B) <- arc(A, B).                        tc(A, B) <- arc(A, B).
    tc(A, B) <- tc(A, C), tc(C, B).        ─►     tc(A, B) <- tc(A, C), arc(C, B).

    d(A, B, mmin<V>) <- last(A, B, V).            d(A, B, mmin<V>) <- last(A, B, V).
    d(A, B, mmin<W + D>) <-                ─►     d(A, B, mmin<S + V>) <-
        arc(A, C, W), d(C, B, D).                     d_steps(A, C, S), last(C, B, V).
                                                  d_steps(A, C, mmin<W>) <- arc(A, C, W).
                                                  d_steps(A, E, mmin<S + W>) <-
                                                      d_steps(A, C, S), arc(C, E, W).

The rules of a relation are taken apart into

    exit      do not read it
    carrying  read it once; what is bound stays as it is, and nothing else looks at it
    moving    read it once; what is free stays, and nothing else in the rule looks at it; but where
              only one rule reads the relation, comparisons of nothing else are made at the end
    joining   read it twice, end to end, and nothing else

A joining rule adds one exit after another, and so does a moving one whose step is what an exit is.
Other moving rules become steps of their own, a closure that carries what is bound, and each exit
rule is there once more, behind such steps. Carrying rules stay. The value of `mmin` or `mmax` must
be a sum along the way, of whole numbers: fractions would be added in another order. Steps go
wherever they can, also where no exit is; so that they end whenever the rules as written do, what
they add must be of the right sign, or there must be an exit wherever one starts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from caladan.analysis.core import (
    Checked,
    Clique,
    CoreAtom,
    CoreRule,
    RelationInfo,
    Term,
    by_head,
)
from caladan.analysis.pcg import Patterns, explore
from caladan.analysis.strata import strata
from caladan.program import (
    Aggregate,
    AggregateFunction,
    Arithmetic,
    Column,
    Comparison,
    Constant,
    Expression,
    Variable,
    names,
    variables,
)
from caladan.program.diagnostics import Diagnostics
from caladan.program.transform import fresh, replace_in


def directed(patterns: Patterns, wanted: Iterable[str]) -> Checked:
    """The program with the recursions turned round that go against their bindings."""
    checked = patterns.checked
    reached = explore(patterns, wanted)
    rules, relations = by_head(checked.rules), dict(checked.relations)
    is_turned = False
    for clique in checked.cliques:
        name = clique.relations[0]
        pattern = next((p for relation, p in reached if relation == name), "")
        if len(clique.relations) > 1 or not clique.is_recursive or "b" not in pattern:
            continue
        if checked.facts.get(name) or checked.open_facts.get(name):
            continue  # exits that are no rules
        turning = _Turn(checked.relations[name], pattern, set(relations))
        seeded = all(_has_constants(patterns, r, p, name, pattern) for r, p in reached if r != name)
        turned = turning.rules(clique, seeded)
        if turned is not None:
            rules |= by_head(turned)
            relations |= {steps.name: steps for steps in turning.made}
            is_turned = True
    if not is_turned:
        return checked
    every = sorted((rule for own in rules.values() for rule in own), key=lambda rule: rule.number)
    derived = [n for n, r in relations.items() if r.is_derived]
    cliques = strata(every, derived, Diagnostics())
    return replace(checked, relations=relations, rules=tuple(every), cliques=cliques)


def _has_constants(patterns: Patterns, head: str, headed: str, relation: str, pattern: str) -> bool:
    """Whether the rules of another relation ask for constants only.

    Whoever asks for many values shares what is between them: steps from each would be more.
    """
    return all(
        isinstance(argument, Constant)
        for rule in patterns.rules(head)
        for index in patterns.body(rule, headed)
        if (atom := rule.atoms[index]).relation == relation
        for argument, letter in zip(atom.arguments, pattern, strict=True)
        if letter == "b"
    )


@dataclass(frozen=True, slots=True)
class _Part:
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


class _Turn:
    """Turns the rules of one relation."""

    def __init__(self, info: RelationInfo, pattern: str, taken: set[str]) -> None:
        self._info = info
        self._taken = taken
        self._bound = tuple(i for i, letter in enumerate(pattern) if letter == "b")
        self._free = tuple(i for i in info.group if i not in self._bound)
        values = [i for i in range(info.arity) if i not in info.group]
        self._value = values[0] if values else None
        self._can_add = not values or (
            len(values) == 1
            and info.aggregates[values[0]] in ("mmin", "mmax")
            and info.columns[values[0]].type.is_integral
        )
        self.made: list[RelationInfo] = []

    def rules(self, clique: Clique, seeded: bool) -> list[CoreRule] | None:
        """The rules of the clique that go the other way; None if that is not known to be the same.

        `seeded`, nobody asks for more than constants.
        """
        if not self._free or not self._can_add:
            return None
        if any(rule.order or rule.limit is not None for rule in clique.rules):
            return None
        parts = [self._part(rule) for rule in clique.rules]
        if any(part is None for part in parts):
            return None
        known = [part for part in parts if part is not None]
        exits = [part for part in known if not part.read]
        joining = [part for part in known if len(part.read) == 2]
        linear = [part for part in known if len(part.read) == 1]
        moving = [part for part in linear if not self._carries(part)]
        if any(self._looks_at_bound(part) for part in linear if part not in moving):
            return None
        if joining and not moving and all(map(self._joins, joining)):
            kept = [part.rule for part in known if part not in joining]
            made = [self._behind(self._info.name, p.rule, e) for p in joining for e in exits]
            return kept + made
        kept = [part.rule for part in known if part not in moving]
        of_free: tuple[Comparison, ...] = ()
        if len(moving) == len(linear) == 1:
            moving = [self._set_apart(moving[0])]
            of_free = moving[0].of_free
        if not moving or joining or not seeded or not all(self._moves(p, exits) for p in moving):
            return None
        if not of_free and self._are_exits(moving, exits):
            pairs = zip(moving, exits, strict=True)
            return kept + [self._behind(self._info.name, p.rule, e) for p, e in pairs]
        steps = self._steps()
        made = [rule for part in moving for rule in self._stepping(steps, part)]
        for each in exits:
            then = self._compared(of_free, moving[0].rule, each.rule)
            behind = replace(each, comparisons=(*each.comparisons, *then))
            made.append(self._behind(steps.name, each.rule, behind))
        return kept + made

    # What rules are

    def _part(self, rule: CoreRule) -> _Part | None:
        read = tuple(a for a in rule.atoms if a.relation == self._info.name)
        atoms = tuple(a for a in rule.atoms if a.relation != self._info.name)
        if len(read) > 2 or any(atom.negated for atom in read):
            return None
        if self._value is None:
            return _Part(rule, read, atoms, rule.comparisons, None)
        aggregate = rule.arguments[self._value]
        if not isinstance(aggregate, Aggregate) or len(aggregate.terms) != 1:
            return None
        value, comparisons = _spelled_out(aggregate.terms[0], rule)
        arguments = tuple(
            Aggregate(aggregate.function, (value,)) if i == self._value else argument
            for i, argument in enumerate(rule.arguments)
        )
        rule = replace(rule, arguments=arguments)
        part = _Part(rule, read, atoms, comparisons, value)
        summands = _summands(value)
        for atom in read:
            before = atom.arguments[self._value]
            if before not in summands or part.uses[getattr(before, "name", "")] != 2:
                return None  # no sum, or something else looks at what is added up
            summands.remove(before)
        total = _sum(summands)
        if any(t is not None and not t.is_integral for t in map(rule.types.get, names(value))):
            return None
        return replace(part, value=total)

    def _carries(self, part: _Part) -> bool:
        read, head = part.read[0].arguments, part.rule.arguments
        return all(isinstance(head[i], Variable) and head[i] == read[i] for i in self._bound)

    def _looks_at_bound(self, part: _Part) -> bool:
        """Whether a carrying rule depends on what is bound: it would not do the same elsewhere."""
        uses = part.uses
        return any(uses[v.name] > 2 for i in self._bound for v in variables(part.rule.arguments[i]))

    def _set_apart(self, part: _Part) -> _Part:
        """The rule with comparisons that look only at what is free apart from the others."""
        free = {a.name for i in self._free if isinstance(a := part.rule.arguments[i], Variable)}
        late = [c for c in part.comparisons if names(c) and names(c) <= free]
        rest = tuple(c for c in part.comparisons if c not in late)
        return replace(part, comparisons=rest, of_free=tuple(late))

    def _compared(
        self, comparisons: tuple[Comparison, ...], rule: CoreRule, leaving: CoreRule
    ) -> tuple[Comparison, ...]:
        """Comparisons of a rule over what an exit rule has in the same free columns."""
        known = {rule.arguments[i]: leaving.arguments[i] for i in self._free}

        def there(node: object) -> Expression | None:
            return known.get(node) if isinstance(node, Variable) else None

        return replace_in(comparisons, there)

    def _moves(self, part: _Part, exits: Sequence[_Part]) -> bool:
        read, head, uses = part.read[0].arguments, part.rule.arguments, part.uses
        stays = all(
            isinstance(there := head[i], Variable) and there == read[i] and uses[there.name] == 2
            for i in self._free
        )
        placed = {name for atom in part.atoms if not atom.negated for name in atom.variables}
        moved = [term for i in self._bound for term in (head[i], read[i])]
        ends = all(isinstance(t, Constant) or (isinstance(t, Variable) and t.name in placed)
                   for t in moved)  # fmt: skip
        return stays and ends and (self._grows(part) or any(self._mirrors(part, e) for e in exits))

    def _grows(self, part: _Part) -> bool:
        """Whether what a step adds never makes a value better."""
        if self._value is None or part.value is None:
            return True
        falls = self._info.aggregates[self._value] == "mmin"
        summands = _summands(part.value)
        return all(
            isinstance(s, Constant)
            and s.placeholder is None
            and isinstance(s.value, int)
            and (s.value >= 0 if falls else s.value <= 0)
            for s in summands
        )

    def _mirrors(self, step: _Part, leaving: _Part, *, whole: bool = False) -> bool:
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

        starts, ends = self._at(leaving.rule.arguments)
        found = replace_in(
            [leaving.atoms, leaving.comparisons, starts, *([ends, leaving.value] if whole else [])],
            renamed,
        )
        there = self._at(step.read[0].arguments)[0]
        sought = [step.atoms, step.comparisons, self._at(step.rule.arguments)[0]]
        return found == [*sought, *([there, step.value] if whole else [])]

    def _are_exits(self, moving: Sequence[_Part], exits: Sequence[_Part]) -> bool:
        """Whether steps are the exits, one for one."""
        return len(moving) == len(exits) and all(
            self._mirrors(step, leaving, whole=True)
            for step, leaving in zip(moving, exits, strict=True)
        )

    def _joins(self, part: _Part) -> bool:
        if part.atoms or part.comparisons or part.value is not None:
            return False
        if len(self._bound) != len(self._free):
            return False
        ends = self._at(part.rule.arguments)
        for first, second in (part.read, part.read[::-1]):
            before, after = self._at(first.arguments), self._at(second.arguments)
            if before[0] == ends[0] and before[1] == after[0] and after[1] == ends[1]:
                groups = [v for side in (*ends, before[1]) for v in side]
                names = {v.name for v in groups if isinstance(v, Variable)}
                return len(names) == len(groups)
        return False

    def _at(self, arguments: Sequence[Expression]) -> tuple[list[Expression], list[Expression]]:
        return [arguments[i] for i in self._bound], [arguments[i] for i in self._free]

    # What is made of them

    def _steps(self) -> RelationInfo:
        """The relation of what moving rules lead to, from what is bound, with what they add."""
        info = self._info
        names: set[str] = set()
        columns = [info.columns[i] for i in (*self._bound, *self._bound)]
        aggregates: list[AggregateFunction | None] = [None] * len(columns)
        if self._value is not None:
            columns.append(info.columns[self._value])
            aggregates.append(info.aggregates[self._value])
        made = RelationInfo(
            fresh(f"{info.name}_steps", self._taken),
            tuple(Column(fresh(column.name, names), column.type) for column in columns),
            takes_data=False,
            is_derived=True,
            aggregates=tuple(aggregates),
            origin=info.name,
            is_internal=True,
        )
        self.made.append(made)
        return made

    def _stepping(self, steps: RelationInfo, part: _Part) -> list[CoreRule]:
        """A moving rule as the first step, and as one more."""
        goes = tuple(part.read[0].arguments[i] for i in self._bound)
        comes = tuple(part.rule.arguments[i] for i in self._bound)
        first = replace(
            part.rule,
            head=steps.name,
            arguments=(*comes, *goes, *self._added(part.value or Constant(0))),
            atoms=part.atoms,
            comparisons=part.comparisons,
        )
        new = _Fresh(part.rule, self._info)
        start, before = new.starts(self._bound), new.before(self._value)
        there = tuple(new.term(i, argument) for i, argument in zip(self._bound, comes, strict=True))
        atom = CoreAtom(steps.name, (*start, *there, *before), span=part.rule.span)
        value = _sum([*before, *_summands(part.value)])
        more = replace(
            first,
            arguments=(*start, *goes, *self._added(value)),
            atoms=(atom, *part.atoms),
            comparisons=(*part.comparisons, *new.comparisons),
            types=new.types,
        )
        return [first, more]

    def _behind(self, relation: str, rule: CoreRule, part: _Part) -> CoreRule:
        """An exit rule behind facts of a relation that lead to where it starts.

        `rule` is the one that it is known by.
        """
        new = _Fresh(part.rule, self._info)
        start, before = new.starts(self._bound), new.before(self._value)
        head, there = list(part.rule.arguments), dict[int, Term]()
        for place, i in enumerate(self._bound):
            there[i] = new.term(i, head[i])
            head[i] = start[place]
        if self._value is not None:
            (head[self._value],) = self._added(_sum([*before, *_summands(part.value)]))
        if relation == self._info.name:
            known = dict(zip(self._bound, start, strict=True))
            known |= dict(zip(self._free, there.values(), strict=True))
            known |= {} if self._value is None else {self._value: before[0]}
            found = tuple(known[i] for i in range(self._info.arity))
        else:
            found = (*start, *there.values(), *before)
        return replace(
            part.rule,
            number=rule.number,
            arguments=tuple(head),
            atoms=(CoreAtom(relation, found, span=rule.span), *part.atoms),
            comparisons=(*part.comparisons, *new.comparisons),
            types=new.types,
            span=rule.span,
        )

    def _added(self, value: Expression | None) -> tuple[Expression, ...]:
        """The head column of a sum, where there is one."""
        if self._value is None or value is None:
            return ()
        function = self._info.aggregates[self._value]
        assert function is not None
        return (Aggregate(function, (value,)),)


class _Fresh:
    """Variables that a rule does not have, with their types, and what they are equal to."""

    def __init__(self, rule: CoreRule, info: RelationInfo) -> None:
        self._info = info
        self._taken = {*names(rule), *rule.types}
        self.types = dict(rule.types)
        self.comparisons: list[Comparison] = []

    def starts(self, columns: Iterable[int]) -> tuple[Variable, ...]:
        """One for each column that is bound."""
        return tuple(map(self._of, columns))

    def before(self, column: int | None) -> tuple[Variable, ...]:
        """One for what was added up before."""
        return () if column is None else (self._of(column),)

    def term(self, column: int, argument: Expression) -> Term:
        """An argument of a head, as one of an atom."""
        if isinstance(argument, Variable | Constant):
            return argument
        found = self._of(column)
        self.comparisons.append(Comparison("=", found, argument, argument.span))
        return found

    def _of(self, column: int) -> Variable:
        name = fresh(f"_s{column + 1}", self._taken)
        self.types[name] = self._info.columns[column].type
        return Variable(name)


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


def _summands(value: Expression | None) -> list[Expression]:
    """What is added up in an expression."""
    if value is None:
        return []
    if isinstance(value, Arithmetic) and value.operator == "+":
        return [*_summands(value.left), *_summands(value.right)]
    return [value]


def _sum(summands: Sequence[Expression]) -> Expression | None:
    total: Expression | None = None
    for each in summands:
        total = each if total is None else Arithmetic("+", total, each)
    return total
