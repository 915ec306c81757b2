"""The checked program as it was written: what the reference engine evaluates.

    span(R, max<V> - min<V>) <- sale(R, C, V), (vip(C) ; V > 20), sort((R, desc)), limit(3).

stays one rule here, with its alternatives, its arithmetic on aggregates, its order and limit. Names
are resolved, parameters have their values, and constants have the types of what they meet. Nothing
else is done to it, so that an engine that reads this is independent of every rewrite: the
compiler's core form, witnesses, demand and delta rules are all tested against it.

`written(program, checked, …)` costs one walk over the rules; only the reference engine asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from caladan.analysis.constants import ConstantFitter
from caladan.analysis.core import Checked, RelationInfo
from caladan.analysis.generators import expand
from caladan.analysis.named_columns import named_columns
from caladan.analysis.resolve import parameters, predicates
from caladan.analysis.rows import number_rows
from caladan.analysis.shorthand import shorthand
from caladan.analysis.stages import stages
from caladan.analysis.type_check import partial_type, widen
from caladan.program import (
    Aggregate,
    Atom,
    Choice,
    Column,
    Comparison,
    Constant,
    Disjunction,
    Expression,
    Literal,
    Program,
    Rule,
    SortKey,
    Type,
    Value,
    Variable,
    atoms,
)
from caladan.program.aggregates import row_of
from caladan.program.diagnostics import Diagnostics, Span
from caladan.program.objects import Objects
from caladan.program.transform import reachable


@dataclass(frozen=True, slots=True)
class WrittenRule:
    """A rule as it was written; `number` is what users know it by."""

    number: int
    head: str
    arguments: tuple[Expression, ...]
    body: tuple[Literal, ...]
    order: tuple[SortKey, ...] = ()
    limit: int | None = None
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def derives(self) -> str:
        """What users know as its head."""
        return self.head


@dataclass(frozen=True, slots=True)
class WrittenProgram:
    """The rules, facts and relations that lead to the `asked` relations."""

    relations: Mapping[str, RelationInfo]
    rules: tuple[WrittenRule, ...]
    facts: Mapping[str, Sequence[tuple[Value, ...]]]
    asked: tuple[str, ...]


def keep_as_written(
    program: Program,
    catalog: Mapping[str, tuple[Column, ...]],
    checked: Checked,
    values: Mapping[str, Value],
    wanted: Iterable[str] | None,
    objects: Objects,
) -> WrittenProgram:
    """The program that `checked` was made of, as far as the goals and `wanted` need it."""
    known = {
        name: info
        for name, info in checked.relations.items()
        if not info.is_internal or info.origin != name
    }
    asked = [goal.name for goal in checked.goals]
    if wanted is not None:
        asked += wanted
    elif not asked:
        asked = [name for name, info in known.items() if info.is_derived]
    placed, _ = named_columns(program, catalog, Diagnostics())
    expanded = expand(shorthand(placed), catalog)
    known |= {name: checked.relations[name] for name in expanded.made}
    placed = expanded.program
    bound = predicates(parameters(placed, values, Diagnostics()), catalog)
    bound, _ = number_rows(bound, catalog, Diagnostics())
    bound, staged, _ = stages(bound, catalog)
    known |= {name: checked.relations[name] for name in staged}
    reads: dict[str, list[str]] = {}
    for rule in bound.rules:
        read = (atom.relation for atom in atoms(rule.body))
        reads.setdefault(rule.head.relation, []).extend(read)
    needed = reachable(dict.fromkeys(asked), lambda name: reads.get(name, ()))
    relations = {name: info for name, info in known.items() if name in set(needed)}
    fitter = ConstantFitter(
        {name: info.types for name, info in known.items()}, Diagnostics(), objects
    )
    rules: list[WrittenRule] = []
    facts: dict[str, dict[tuple[Value, ...], None]] = {}
    for number, rule in enumerate(bound.rules, start=1):
        head = rule.head.relation
        if head not in relations:
            continue
        made = _keep_rule(number, rule, relations[head].types, fitter)
        if rule.body or not all(isinstance(a, Constant) for a in made.arguments):
            rules.append(made)
        else:
            row = tuple(a.value for a in made.arguments if isinstance(a, Constant))
            facts.setdefault(head, {})[row] = None
    return WrittenProgram(
        relations,
        tuple(rules),
        {name: tuple(rows) for name, rows in facts.items()},
        tuple(dict.fromkeys(asked)),
    )


def _keep_rule(
    number: int, rule: Rule, types: Sequence[Type], fitter: ConstantFitter
) -> WrittenRule:
    known = _types(rule.body, fitter.columns, {})
    columns = iter(types)
    arguments: list[Expression] = []
    for argument in rule.head.arguments:
        type = next(columns)
        arguments.append(fitter.argument(argument, type, known))
        for _ in range(witness_count(argument)):
            next(columns)
    return WrittenRule(
        number,
        rule.head.relation,
        tuple(arguments),
        tuple(_fit_literal(each, known, fitter) for each in rule.body),
        rule.order,
        rule.limit.value
        if isinstance(rule.limit, Constant) and isinstance(rule.limit.value, int)
        else None,
        rule.span,
    )


def witness_count(argument: Expression) -> int:
    """How many columns of witnesses follow that of an aggregate: one in `mmin<Cost, From>`."""
    has_columns = isinstance(argument, Aggregate) and row_of(argument).witness == "after"
    return len(argument.terms) - 1 if has_columns and isinstance(argument, Aggregate) else 0


def branches(literal: Choice | Disjunction) -> tuple[tuple[Literal, ...], ...]:
    """The literals of each alternative, without the condition of an `if`."""
    return (
        literal.branches
        if isinstance(literal, Disjunction)
        else (
            literal.then,
            literal.otherwise,
        )
    )


def _fit_literal(literal: Literal, known: Mapping[str, Type], fitter: ConstantFitter) -> Literal:
    """A literal with constants of the types they meet; variables of a branch have its types."""

    def inside(branch: tuple[Literal, ...]) -> tuple[Literal, ...]:
        own = _types(branch, fitter.columns, known)
        return tuple(_fit_literal(each, own, fitter) for each in branch)

    match literal:
        case Disjunction():
            return Disjunction(tuple(map(inside, literal.branches)), literal.span)
        case Choice():
            condition = tuple(fitter.comparison(each, known) for each in literal.condition)
            return Choice(condition, inside(literal.then), inside(literal.otherwise), literal.span)
        case Comparison():
            return fitter.comparison(literal, known)
        case Atom():
            types = fitter.columns[literal.relation]
            arguments = zip(literal.arguments, types, strict=True)
            fitted = tuple(fitter.argument(each, type, known) for each, type in arguments)
            return Atom(literal.relation, fitted, literal.negated, literal.span)


def _types(
    body: Iterable[Literal], columns: Mapping[str, Sequence[Type]], outside: Mapping[str, Type]
) -> dict[str, Type]:
    """The types of variables: of columns they stand in, else of what they are equal to."""
    known: dict[str, Type] = {}
    body = tuple(body)
    for each in body:
        if isinstance(each, Atom) and not each.negated:
            for argument, type in zip(each.arguments, columns[each.relation], strict=True):
                if isinstance(argument, Variable):
                    before = known.get(argument.name, type)
                    known[argument.name] = widen(before, type) or before
    known = {**outside, **known}
    for each in body:
        if isinstance(each, Choice | Disjunction):
            for branch in branches(each):
                known = {**_types(branch, columns, known), **known}
    equalities = [e for e in body if isinstance(e, Comparison) and e.operator == "="]
    before = -1
    while before < len(known):
        before = len(known)
        for each in equalities:
            for one, other in ((each.left, each.right), (each.right, each.left)):
                type = partial_type(other, known)
                if isinstance(one, Variable) and type is not None:
                    known.setdefault(one.name, type)
    return known
