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

The rules of a relation are taken apart (recursive_parts.py) into exits, and those that carry what
is bound, move it, or join two ways end to end. A joining rule adds one exit after another, and so
does a moving one whose step is what an exit is. Other moving rules become steps of their own, a
closure that carries what is bound, and each exit rule is there once more, behind such steps.
Carrying rules stay. The value of `mmin` or `mmax` must be a sum along the way, of whole numbers:
fractions would be added in another order. Steps go wherever they can, also where no exit is; so
that they end whenever the rules as written do, what they add must be of the right sign, or there
must be an exit wherever one starts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from caladan.analysis.core import Checked, Clique, CoreAtom, CoreRule, RelationInfo, Term, by_head
from caladan.analysis.pcg import Pcg, PcgPart
from caladan.analysis.recursive_parts import RecursiveParts, RulePart, summands, total
from caladan.analysis.strata import restratify
from caladan.program import (
    Column,
    Comparison,
    Constant,
    Expression,
    Variable,
    names,
)
from caladan.program.aggregates import AggregateFunction
from caladan.program.transform import fresh, replace_in


def turn_recursions(pcg: Pcg) -> Checked:
    """The program with the recursions turned round that go against their bindings."""
    checked, reached = pcg.source, tuple(pcg.rules)
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
        seeded = all(
            _has_constants(pcg, part, name, pattern) for part in reached if part[0] != name
        )
        turned = turning.rules(clique, seeded)
        if turned is not None:
            rules |= by_head(turned)
            relations |= {steps.name: steps for steps in turning.made}
            is_turned = True
    if not is_turned:
        return checked
    return restratify(checked, relations, (rule for own in rules.values() for rule in own))


def _has_constants(pcg: Pcg, head: PcgPart, relation: str, pattern: str) -> bool:
    """Whether the rules of another relation ask for constants only.

    Whoever asks for many values shares what is between them: steps from each would be more.
    """
    return all(
        isinstance(argument, Constant)
        for node in pcg.rules[head]
        for child in node.children
        if child.relation == relation
        for argument, letter in zip(child.arguments, pattern, strict=True)
        if letter == "b"
    )


class _Turn(RecursiveParts):
    """Turns the rules of one relation."""

    def __init__(self, info: RelationInfo, pattern: str, taken: set[str]) -> None:
        super().__init__(info, pattern)
        self._taken = taken
        self.made: list[RelationInfo] = []

    def rules(self, clique: Clique, seeded: bool) -> list[CoreRule] | None:
        """The rules of the clique that go the other way; None if that is not known to be the same.

        `seeded`, nobody asks for more than constants.
        """
        if not self.free or not self.can_add:
            return None
        if any(rule.order or rule.limit is not None for rule in clique.rules):
            return None
        parts = [self.part(rule) for rule in clique.rules]
        if any(part is None for part in parts):
            return None
        known = [part for part in parts if part is not None]
        exits = [part for part in known if not part.read]
        joining = [part for part in known if len(part.read) == 2]
        linear = [part for part in known if len(part.read) == 1]
        moving = [part for part in linear if not self.carries(part)]
        if any(self.looks_at_bound(part) for part in linear if part not in moving):
            return None
        if joining and not moving and all(map(self.joins, joining)):
            kept = [part.rule for part in known if part not in joining]
            made = [self._behind(self.info.name, p.rule, e) for p in joining for e in exits]
            return kept + made
        kept = [part.rule for part in known if part not in moving]
        of_free: tuple[Comparison, ...] = ()
        if len(moving) == len(linear) == 1:
            moving = [self.set_apart(moving[0])]
            of_free = moving[0].of_free
        if not moving or joining or not seeded or not all(self.moves(p, exits) for p in moving):
            return None
        if not of_free and self.are_exits(moving, exits):
            pairs = zip(moving, exits, strict=True)
            return kept + [self._behind(self.info.name, p.rule, e) for p, e in pairs]
        steps = self._steps()
        made = [rule for part in moving for rule in self._stepping(steps, part)]
        for each in exits:
            then = self._compared(of_free, moving[0].rule, each.rule)
            behind = replace(each, comparisons=(*each.comparisons, *then))
            made.append(self._behind(steps.name, each.rule, behind))
        return kept + made

    def _compared(
        self, comparisons: tuple[Comparison, ...], rule: CoreRule, leaving: CoreRule
    ) -> tuple[Comparison, ...]:
        """Comparisons of a rule over what an exit rule has in the same free columns."""
        known = {rule.arguments[i]: leaving.arguments[i] for i in self.free}

        def there(node: object) -> Expression | None:
            return known.get(node) if isinstance(node, Variable) else None

        return replace_in(comparisons, there)

    def _steps(self) -> RelationInfo:
        """The relation of what moving rules lead to, from what is bound, with what they add."""
        info = self.info
        names: set[str] = set()
        columns = [info.columns[i] for i in (*self.bound, *self.bound)]
        aggregates: list[AggregateFunction | None] = [None] * len(columns)
        if self.value is not None:
            columns.append(info.columns[self.value])
            aggregates.append(info.aggregates[self.value])
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

    def _stepping(self, steps: RelationInfo, part: RulePart) -> list[CoreRule]:
        """A moving rule as the first step, and as one more."""
        goes = tuple(part.read[0].arguments[i] for i in self.bound)
        comes = tuple(part.rule.arguments[i] for i in self.bound)
        first = replace(
            part.rule,
            head=steps.name,
            arguments=(*comes, *goes, *self._added(part.value or Constant(0))),
            atoms=part.atoms,
            comparisons=part.comparisons,
        )
        new = _Fresh(part.rule, self.info)
        start, before = new.starts(self.bound), new.before(self.value)
        there = tuple(new.term(i, argument) for i, argument in zip(self.bound, comes, strict=True))
        atom = CoreAtom(steps.name, (*start, *there, *before), span=part.rule.span)
        value = total([*before, *summands(part.value)])
        more = replace(
            first,
            arguments=(*start, *goes, *self._added(value)),
            atoms=(atom, *part.atoms),
            comparisons=(*part.comparisons, *new.comparisons),
            types=new.types,
        )
        return [first, more]

    def _behind(self, relation: str, rule: CoreRule, part: RulePart) -> CoreRule:
        """An exit rule behind facts of a relation that lead to where it starts.

        `rule` is the one that it is known by.
        """
        new = _Fresh(part.rule, self.info)
        start, before = new.starts(self.bound), new.before(self.value)
        head, there = list(part.rule.arguments), dict[int, Term]()
        for place, i in enumerate(self.bound):
            there[i] = new.term(i, head[i])
            head[i] = start[place]
        if self.value is not None:
            (head[self.value],) = self._added(total([*before, *summands(part.value)]))
        if relation == self.info.name:
            known = dict(zip(self.bound, start, strict=True))
            known |= dict(zip(self.free, there.values(), strict=True))
            known |= {} if self.value is None else {self.value: before[0]}
            found = tuple(known[i] for i in range(self.info.arity))
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
        if self.value is None or value is None:
            return ()
        function = self.info.aggregates[self.value]
        assert function is not None
        return (function.of((value,)),)


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
