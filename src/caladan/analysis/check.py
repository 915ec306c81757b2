"""The analysis, pass after pass: a Program goes in, a Checked comes out.

All errors that can be found are collected before giving up: rules that mention something unknown
are left out of the passes after that, which look at the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from caladan.analysis.core import (
    Checked,
    CoreGoal,
    CoreRule,
    RelationInfo,
    Term,
    by_head,
    with_open,
)
from caladan.analysis.generators import expand
from caladan.analysis.missing import check_null, mentions_missing
from caladan.analysis.monotone import monotone
from caladan.analysis.named_columns import head_names, named_columns
from caladan.analysis.normalize import normalize
from caladan.analysis.resolve import KnownRelation, parameters, predicates, resolve, unsound
from caladan.analysis.rows import numbered
from caladan.analysis.safety import safety
from caladan.analysis.shorthand import shorthand
from caladan.analysis.stages import stages
from caladan.analysis.strata import strata
from caladan.analysis.types import TypedRules, types
from caladan.analysis.witnesses import witnesses
from caladan.program import (
    Aggregate,
    Column,
    Constant,
    Goal,
    Program,
    Value,
    Variable,
)
from caladan.program.aggregates import AggregateFunction, define_aggregates, row_of
from caladan.program.diagnostics import Diagnostics, RelatedSpan
from caladan.program.objects import Objects
from caladan.program.transform import fresh


def check(
    program: Program,
    catalog: Mapping[str, tuple[Column, ...]],
    values: Mapping[str, Value],
    suggested: Iterable[str] = (),
    objects: Objects | None = None,
    named: Mapping[str, Sequence[str]] | None = None,
    *,
    may_lack: bool = False,
) -> Checked:
    """The program in core form, or a CaladanError with everything that is wrong with it.

    Values of its data `may_lack`. Constants that are objects get their numbers from `objects`.
    Columns of relations are `named` where rules have no names to give, as in SQL.
    """
    found = Diagnostics()
    objects = Objects() if objects is None else objects
    program = define_aggregates(program, {}, found)
    found.raise_errors()
    placed, written = named_columns(program, catalog, found)
    expanded = expand(shorthand(placed), catalog)
    called = predicates(parameters(expanded.program, values, found), catalog)
    check_null(called, found)
    called, rows = numbered(called, catalog, found)
    may_lack = may_lack or mentions_missing(called)
    resolve(called, catalog, found, suggested)
    called, staged, clocks = stages(called, catalog)
    bound, best = witnesses(called, catalog, found)
    # What is wrong with names was reported above, by those that the user knows.
    known = resolve(bound, catalog, Diagnostics(), suggested)
    normal = normalize(bound, found, unsound(bound, known), may_lack=may_lack)
    internal = {name: best.get(of, of) for name, of in normal.internal.items()} | best | rows
    internal |= {**expanded.made, **staged}
    typed = types(normal.rules, known, found, objects, bound.goals)
    facts = with_open(typed.facts, typed.open_facts)
    safety([rule for rule in typed.rules if rule.head not in best], found)
    known_names = {**written, **(named or {})}
    relations = _relations(known, internal, best, typed, known_names, found)
    relations |= {name: replace(relations[name], origin=of) for name, of in rows.items()}
    goals = tuple(
        _goal(g, relations, found, objects)
        for g in bound.goals
        if g.atom.relation in relations
        and relations[g.atom.relation].arity == len(g.atom.arguments)
    )
    derived = [n for n, r in relations.items() if r.is_derived]
    rules = tuple(_feeding(r, relations[r.head]) for r in typed.rules)
    cliques = strata(rules, derived, found, internal)
    for clique in cliques:
        for value, name in best.items():
            if value in clique.relations and name in clique.relations:
                found.add(
                    "C015",
                    f"`{name}` keeps a witness, and depends on itself through another relation",
                    next(r.span for r in rules if r.head == name),
                    help="the best values come first, and their witnesses after them: "
                    "let its rules read no other relation that reads it",
                )
    found.hide(internal)
    found.raise_errors()
    monotone(cliques, relations, facts, found, expanded.made, clocks)
    return Checked(
        relations, rules, cliques, goals, found.warnings, facts=facts, open_facts=typed.open_facts
    )


def _relations(
    known: Mapping[str, KnownRelation],
    internal: Collection[str],
    best: Collection[str],
    typed: TypedRules,
    given: Mapping[str, Sequence[str]],
    found: Diagnostics,
) -> dict[str, RelationInfo]:
    relations: dict[str, RelationInfo] = {}
    own = by_head(typed.rules)
    for name, column_types in typed.columns.items():
        rules = own.get(name, [])
        relation = known.get(name)
        inferred = False
        given_columns: tuple[Column, ...] | None = None
        if relation is not None and relation.columns is not None:
            names = [c.name for c in relation.columns]
            inferred = any(c.is_inferred for c in relation.columns)
            given_columns = relation.columns
        else:
            heads = [rule.arguments for rule in rules]
            unnamed = [f"c{i + 1}" for i in range(len(column_types))]
            names = given.get(name) or (head_names(heads[0]) if heads else unnamed)
        columns = tuple(
            Column(n, t, is_inferred=inferred) for n, t in zip(names, column_types, strict=True)
        )
        if given_columns is not None:
            pairs = zip(columns, given_columns, strict=True)
            columns = tuple(
                replace(own, is_required=given.is_required, role=given.role) for own, given in pairs
            )
        aggregates = _aggregates(name, rules, len(column_types), found)
        has_facts = name in typed.facts or name in typed.open_facts
        takes_data = relation is not None and relation.takes_data
        _check_gathered(name, rules, aggregates, found, has_facts=has_facts or takes_data)
        relations[name] = RelationInfo(
            name,
            columns,
            takes_data=takes_data,
            is_derived=bool(rules) or has_facts,
            aggregates=aggregates,
            origin=name,
            is_internal=name in internal or name in best,
            matches_missing=name in best,
            order=_shown_order(rules),
            span=relation.span if relation is not None else None,
        )
    return relations


def _aggregates(
    name: str, rules: Sequence[CoreRule], arity: int, found: Diagnostics
) -> tuple[AggregateFunction | None, ...]:
    functions: list[AggregateFunction | None] = [None] * arity
    first: dict[int, Aggregate] = {}
    for rule in rules:
        for i, argument in enumerate(rule.arguments):
            if not isinstance(argument, Aggregate):
                continue
            before = first.setdefault(i, argument)
            functions[i] = row_of(before)
            if before.function != argument.function:
                found.add(
                    "C016",
                    f"column {i + 1} of `{name}` is aggregated by `{argument.function}` here "
                    f"and by `{before.function}` in another rule",
                    argument.span or rule.span,
                    related=[RelatedSpan("the other rule's aggregate", before.span)]
                    if before.span
                    else [],
                    help="all rules of a relation feed the same groups; use one function, "
                    "or two relations",
                )
    return tuple(functions)


def _check_gathered(
    name: str,
    rules: Sequence[CoreRule],
    aggregates: Sequence[AggregateFunction | None],
    found: Diagnostics,
    *,
    has_facts: bool,
) -> None:
    """C015 where a column of an aggregate that keeps all solutions has other values, too."""
    for i, row in enumerate(aggregates):
        if row is None or not row.is_gathered:
            continue
        plain = [rule for rule in rules if not isinstance(rule.arguments[i], Aggregate)]
        if has_facts or plain:
            found.add(
                "C015",
                f"column {i + 1} of `{name}` is aggregated by `{row}`, and has plain values, too",
                (plain or rules)[0].span,
                help="give the facts another name, and derive from them by a rule",
            )


def _feeding(rule: CoreRule, relation: RelationInfo) -> CoreRule:
    """A plain value in an aggregate column is a value to aggregate."""
    return replace(
        rule,
        arguments=tuple(
            argument
            if function is None or isinstance(argument, Aggregate)
            else function.of((argument,), argument.span)
            for argument, function in zip(rule.arguments, relation.aggregates, strict=True)
        ),
    )


def _shown_order(rules: Sequence[CoreRule]) -> tuple[tuple[int, bool], ...]:
    """How to show a relation whose only rule sorts."""
    if len(rules) != 1:
        return ()
    rule = rules[0]
    order: list[tuple[int, bool]] = []
    for key in rule.order:
        if key.variable not in rule.arguments:
            return ()
        order.append((rule.arguments.index(key.variable), key.descending))
    return tuple(order)


def _goal(
    goal: Goal, relations: Mapping[str, RelationInfo], found: Diagnostics, objects: Objects
) -> CoreGoal:
    relation = relations[goal.atom.relation]
    arguments: list[Term] = []
    columns: list[Column] = []
    given = goal.atom.arguments
    asked = {each.name for each in given if isinstance(each, Variable) and not each.is_anonymous}
    for argument, column in zip(goal.atom.arguments, relation.columns, strict=True):
        match argument:
            case Variable():
                arguments.append(argument)
                name = column.name if argument.is_anonymous else argument.name
            case Constant():
                arguments.append(_goal_constant(argument, column, relation, found, objects))
                name = column.name
            case _:
                found.add(
                    "C023",
                    f"an argument of a goal on `{relation.name}` must be a variable or a constant",
                    argument.span or goal.span,
                    help="compute the value in a rule, or pass it as a parameter",
                )
                arguments.append(Variable("_"))
                name = column.name
        is_asked = isinstance(argument, Variable) and not argument.is_anonymous
        taken = {c.name for c in columns} | (set() if is_asked else asked)
        columns.append(Column(fresh(name, taken), column.type))
    return CoreGoal(
        relation.name, relation.name, tuple(arguments), tuple(columns), goal.export, goal.span
    )


def _goal_constant(
    argument: Constant,
    column: Column,
    relation: RelationInfo,
    found: Diagnostics,
    objects: Objects,
) -> Constant:
    try:
        return argument.fitted(objects.fit(argument.value, column.type), column.type)
    except ValueError as reason:
        found.add(
            "C012",
            f"column {column.name} of `{relation.name}` is {column.type}: {reason}",
            argument.span,
        )
        return argument
