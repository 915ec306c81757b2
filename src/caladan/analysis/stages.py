"""Aggregates through an index: recursion whose aggregates are finished stage by stage.

    pr(0, X, 1.0) <- node(X).                                   start
    part(I, Y, sum<V / D>) <- pr(I, X, V), deg(X, D), arc(X, Y).       the same stage
    pr(I + 1, Y, 0.15 + 0.85 * S) <- part(I, Y, S), I < 20.            the next stage

`part` depends on itself through an aggregate, but never at the same I: the program is stratified by
I (XY-stratified). `stages(program)` finds the index column of each relation of such a recursion and
puts a clock into its rules: a rule waits until what it reads of its stage is complete. So each
group gets all its values in one round, and an aggregate of recursion (`msum` for `sum`) gives the
value that the written one would give.

    pr_stage_1(0).                                       the clock: one relation for each level
    pr_stage_2(I) <- pr_stage_1(I).                      of relations that read each other at one I
    pr_stage_1(I + 1) <- pr_stage_2(I), part(I, _, _).

What has no such index stays as it is, and C014 reports it: all starts must have one constant as
index, every rule reads its own stage or the one before by the same distance, and within a stage
relations do not depend on each other in circles. Aggregates are `min`, `max`, `sum`, `count` and
`avg`; negation within the recursion is not among what stages can do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise, product

from caladan.analysis.strata import components
from caladan.program import (
    Aggregate,
    Arithmetic,
    Atom,
    Column,
    Comparison,
    Constant,
    Expression,
    Folding,
    Head,
    Literal,
    Program,
    Rule,
    Variable,
    atoms,
    names,
)
from caladan.program.aggregates import lookup, row_of
from caladan.program.transform import fresh, replace_in, walk

_MOST_CHOICES = 4096  # of index columns that are tried


def stages(
    program: Program, catalog: Mapping[str, tuple[Column, ...]]
) -> tuple[Program, dict[str, str], frozenset[str]]:
    """The program with clocks, the relations that were made, each with the one it is for, and
    which of them are clocks."""
    if not any(map(_aggregates_plainly, program.rules)):
        return program, {}, frozenset()
    heads = list(dict.fromkeys(rule.head.relation for rule in program.rules))
    reads: dict[str, list[str]] = {name: [] for name in heads}
    for rule in program.rules:
        reads[rule.head.relation] += [atom.relation for atom in atoms(rule.body)]
    given = {each.name for each in program.relations} | catalog.keys()
    taken = {*heads, *given, *(name for found in reads.values() for name in found)}
    made: dict[str, str] = {}
    ticking: set[str] = set()
    for members in components(heads, reads):
        inside = [r for r in program.rules if r.head.relation in members]
        recursive = [r for r in inside if any(a.relation in members for a in atoms(r.body))]
        if given & {*members} or not any(map(_aggregates_plainly, recursive)):
            continue
        split, more, parts = _with_parts(inside, taken)
        found = _Staging((*members, *parts), (*split, *more)).rules(taken)
        if found is not None:
            rules, clocks = found
            made |= dict.fromkeys(clocks, members[0]) | parts
            ticking.update(clocks)
            # Rules keep their numbers; what is new comes after all others.
            own = iter(rules)
            kept = [next(own) if r.head.relation in members else r for r in program.rules]
            program = replace(program, rules=(*kept, *own))
    return program, made, frozenset(ticking)


def _aggregates_plainly(rule: Rule) -> bool:
    return any(
        isinstance(node, Aggregate)
        and not isinstance(node, Folding)
        and not row_of(node).is_monotone
        for argument in rule.head.arguments
        for node in walk(argument)
    )


def _with_parts(
    rules: Sequence[Rule], taken: set[str]
) -> tuple[list[Rule], list[Rule], dict[str, str]]:
    """Rules that compute with aggregates, or take means, in two: one computes, one aggregates.

    The latter are apart, with the names of their relations.
    """
    found: list[Rule] = []
    more: list[Rule] = []
    made: dict[str, str] = {}
    for rule in rules:
        arguments = replace_in(rule.head.arguments, _as_total)
        mixed = any(not isinstance(a, Aggregate) and _has_aggregates(a) for a in arguments)
        if not mixed:
            found.append(rule)
            continue
        name = fresh(f"{rule.head.relation}_parts", taken)
        made[name] = rule.head.relation
        group = [a for a in arguments if not _has_aggregates(a)]
        inside = (node for argument in arguments for node in walk(argument))
        totals = list(dict.fromkeys(node for node in inside if isinstance(node, Aggregate)))
        used = {*names(rule)}
        columns = [Variable(fresh(f"_{i + 1}", used)) for i in range(len(group) + len(totals))]
        stand_in = dict(zip((*group, *totals), columns, strict=True))
        head = replace(rule.head, relation=name, arguments=(*group, *totals), columns=())
        more.append(replace(rule, head=head))
        outer = replace(rule.head, arguments=tuple(replace_in(a, stand_in.get) for a in arguments))
        read = Atom(name, tuple(columns), span=rule.head.span)
        found.append(Rule(outer, (read,), span=rule.span))
    return found, more, made


def _as_total(node: object) -> Expression | None:
    """`avg<V>` as `sum<V> / count<_>`."""
    if not isinstance(node, Aggregate) or not row_of(node).is_mean:
        return None
    count = lookup("count").of((Variable("_"),), node.span)
    return Arithmetic("/", lookup("sum").of(node.terms, node.span), count, node.span)


def _has_aggregates(node: object) -> bool:
    return any(isinstance(part, Aggregate) for part in walk(node))


@dataclass(frozen=True, slots=True)
class _Step:
    """A rule that reads the recursion: the variable of its index, and how far its head is from it.

    `reads` has the atoms of the recursion, each with its distance from the stage of the head.
    """

    rule: Rule
    variable: Variable
    offset: int
    reads: tuple[tuple[Atom, int], ...]


class _Staging:
    """The rules of one recursion."""

    def __init__(self, members: Sequence[str], rules: Sequence[Rule]) -> None:
        self._members = members
        self._rules = rules

    def rules(self, taken: set[str]) -> tuple[list[Rule], list[str]] | None:
        """The rules with a clock, and the relations of the clock; None if there is no index."""
        if not all(map(self._is_plain, self._rules)):
            return None
        columns = [self._group_columns(name) for name in self._members]
        for chosen in islice(product(*columns), _MOST_CHOICES):
            found = self._staged(dict(zip(self._members, chosen, strict=True)), taken)
            if found is not None:
                return found
        return None

    def _is_plain(self, rule: Rule) -> bool:
        """Whether a rule reads the recursion in plain atoms, and aggregates as recursion can."""
        own = [a for a in atoms(rule.body) if a.relation in self._members]
        plain = [a for a in rule.body if isinstance(a, Atom) and not a.negated]
        for argument in rule.head.arguments:
            if isinstance(argument, Aggregate):
                row = row_of(argument)
                if len(argument.terms) > 1 or not (row.is_monotone or row.has_form("monotone")):
                    return False
        is_cut = bool(rule.order) or rule.limit is not None or rule.time != "now"
        return not is_cut and all(atom in plain for atom in own)

    def _group_columns(self, name: str) -> list[int]:
        heads = [rule.head for rule in self._rules if rule.head.relation == name]
        width = min(len(head.arguments) for head in heads)
        return [i for i in range(width) if not any(_has_aggregates(h.arguments[i]) for h in heads)]

    def _staged(
        self, index: Mapping[str, int], taken: set[str]
    ) -> tuple[list[Rule], list[str]] | None:
        steps: list[_Step] = []
        starts: set[int] = set()
        for rule in self._rules:
            own = [a for a in rule.body if isinstance(a, Atom) and a.relation in self._members]
            variable, offset = _linear(rule.head.arguments[index[rule.head.relation]], rule.body)
            if not own:
                if variable is not None:
                    return None
                starts.add(offset)
                continue
            reads: list[tuple[Atom, int]] = []
            for atom in own:
                if len(atom.arguments) <= index[atom.relation]:
                    return None
                read, behind = _linear(atom.arguments[index[atom.relation]], rule.body)
                if variable is None or read != variable or behind > offset:
                    return None
                reads.append((atom, offset - behind))
            assert variable is not None
            steps.append(_Step(rule, variable, offset, tuple(reads)))
        distances = {d for step in steps for _, d in step.reads if d}
        levels = _levels(self._members, steps)
        if len(starts) != 1 or len(distances) != 1 or levels is None:
            return None
        return self._clocked(steps, starts.pop(), distances.pop(), levels, taken)

    def _clocked(
        self, steps: list[_Step], start: int, distance: int, levels: Mapping[str, int],
        taken: set[str],
    ) -> tuple[list[Rule], list[str]]:  # fmt: skip
        last = max(levels.values())
        clocks = [fresh(f"{self._members[0]}_stage_{i + 1}", taken) for i in range(last + 1)]
        one = Variable("I")
        made: list[Rule] = []
        ticking = [Rule(Head(clocks[0], (Constant(start),)))]
        for before, after in pairwise(clocks):
            ticking.append(Rule(Head(after, (one,)), (Atom(before, (one,)),)))
        waiting = {id(step.rule): step for step in steps}
        for rule in self._rules:
            head = replace_in(rule.head, _in_recursion)
            step = waiting.get(id(rule))
            if step is None:
                made.append(replace(rule, head=head))
                continue
            level = levels[rule.head.relation]
            if level:
                gate = Atom(clocks[level - 1], (_plus(step.variable, step.offset),))
            else:
                gate = Atom(clocks[last], (_plus(step.variable, step.offset - distance),))
            made.append(replace(rule, head=head, body=_add_gate(gate, rule.body)))
            for atom, behind in step.reads:
                if behind:
                    own = _plus(step.variable, step.offset - distance)
                    next_stage = Head(clocks[0], (_plus(step.variable, step.offset),))
                    body = _add_gate(Atom(clocks[last], (own,)), (_only(atom, step.variable),))
                    ticking.append(Rule(next_stage, body, span=rule.span))
        return [*made, *ticking], clocks


def _add_gate(gate: Atom, body: Sequence[Literal]) -> tuple[Literal, ...]:
    return (*body, gate)


def _only(atom: Atom, variable: Variable) -> Atom:
    """An atom of which only the index matters."""
    return replace(
        atom,
        arguments=tuple(a if variable.name in names(a) else Variable("_") for a in atom.arguments),
    )


def _in_recursion(node: object) -> Aggregate | None:
    if not isinstance(node, Aggregate) or row_of(node).is_monotone:
        return None
    return row_of(node).in_form("monotone").of(node.terms, node.span)


def _plus(variable: Variable, offset: int) -> Expression:
    if not offset:
        return Variable(variable.name)
    operator = "+" if offset > 0 else "-"
    return Arithmetic(operator, Variable(variable.name), Constant(abs(offset)))


def _linear(node: Expression, body: Sequence[Literal]) -> tuple[Variable | None, int]:
    """An index as a variable and a distance: `I + 1`, or `J` where `J = I + 1`; a constant alone.

    What is none of these is a variable that no other index has.
    """
    match node:
        case Constant(int(value)) if not isinstance(value, bool):
            return None, value
        case Arithmetic("+", left, Constant(int(value))) | Arithmetic(
            "+", Constant(int(value)), left
        ):
            base, offset = _linear(left, body)
            return base, offset + value
        case Arithmetic("-", left, Constant(int(value))):
            base, offset = _linear(left, body)
            return base, offset - value
        case Variable(name):
            bound = any(
                isinstance(each, Atom) and not each.negated and name in names(each) for each in body
            )
            for each in () if bound else body:
                if isinstance(each, Comparison) and each.operator == "=":
                    for one, other in (each.left, each.right), (each.right, each.left):
                        if one == node and name not in names(other):
                            return _linear(other, body)
            return Variable(name), 0
        case _:
            return Variable("?"), 0


def _levels(members: Sequence[str], steps: Sequence[_Step]) -> dict[str, int] | None:
    """How many relations of its own stage each one waits for; None if they wait for each other."""
    below: dict[str, set[str]] = {name: set() for name in members}
    for step in steps:
        below[step.rule.head.relation] |= {atom.relation for atom, d in step.reads if not d}
    levels = dict.fromkeys(members, 0)
    for _ in range(len(members) + 1):
        after = {n: 1 + max((levels[b] for b in found), default=-1) for n, found in below.items()}
        if after == levels:
            return levels
        levels = after
    return None
