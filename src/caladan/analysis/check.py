"""The analysis, in four passes: a Program goes in, a Checked comes out.

    Program ─ resolve_names ─► NamedProgram ─ normalize_rules ─► CoreProgram ─ infer_types ─►
    TypedProgram ─ order_cliques ─► Checked

All errors that can be found are collected before giving up: rules that mention something unknown
are left out of the passes after that, which look at the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from caladan.analysis.core import (
    Checked,
    CoreGoal,
    CoreRule,
    Facts,
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
from caladan.analysis.rows import number_rows
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


@dataclass(frozen=True, slots=True)
class NamedProgram:
    """A program whose names are known, or reported to `found`.

    `columns` has the names of columns that rules gave, `made` the relations that were added, each
    with the one it is for, `rows` those among them that number rows.
    """

    program: Program
    catalog: Mapping[str, tuple[Column, ...]]
    suggested: tuple[str, ...]
    columns: Mapping[str, Sequence[str]]
    made: Mapping[str, str]
    rows: Mapping[str, str]
    may_lack: bool
    objects: Objects
    found: Diagnostics


@dataclass(frozen=True, slots=True)
class CoreProgram:
    """The same in core form, without types; `best` has relations that keep witnesses."""

    named: NamedProgram
    rules: tuple[CoreRule, ...]
    goals: tuple[Goal, ...]
    known: Mapping[str, KnownRelation]
    internal: Mapping[str, str]
    best: Mapping[str, str]
    clocks: frozenset[str]


@dataclass(frozen=True, slots=True)
class TypedProgram:
    """The same with a type for every variable and column; every variable is bound."""

    core: CoreProgram
    typed: TypedRules
    facts: Facts


def resolve_names(
    program: Program,
    catalog: Mapping[str, tuple[Column, ...]],
    values: Mapping[str, Value],
    suggested: Iterable[str] = (),
    objects: Objects | None = None,
    named: Mapping[str, Sequence[str]] | None = None,
    *,
    may_lack: bool = False,
) -> NamedProgram:
    """Every atom finds its relation, every parameter its value.

    Values of its data `may_lack`. Constants that are objects get their numbers from `objects`.
    Columns of relations are `named` where rules have no names to give, as in SQL.
    """
    found = Diagnostics()
    program = define_aggregates(program, {}, found)
    found.raise_errors()
    placed, written = named_columns(program, catalog, found)
    expanded = expand(shorthand(placed), catalog)
    called = predicates(parameters(expanded.program, values, found), catalog)
    check_null(called, found)
    called, rows = number_rows(called, catalog, found)
    resolve(called, catalog, found, suggested)
    return NamedProgram(
        called, catalog, tuple(suggested), {**written, **(named or {})}, expanded.made, rows,
        may_lack or mentions_missing(called), Objects() if objects is None else objects, found,
    )  # fmt: skip


def normalize_rules(named: NamedProgram) -> CoreProgram:
    """The rules in core form: clocks for aggregates through an index, witnesses, no `if`."""
    catalog, found = named.catalog, named.found
    called, staged, clocks = stages(named.program, catalog)
    bound, best = witnesses(called, catalog, found)
    # What is wrong with names was reported above, by those that the user knows.
    known = resolve(bound, catalog, Diagnostics(), named.suggested)
    normal = normalize(bound, found, unsound(bound, known), may_lack=named.may_lack)
    internal = {name: best.get(of, of) for name, of in normal.internal.items()}
    internal |= {**best, **named.rows, **named.made, **staged}
    return CoreProgram(named, normal.rules, bound.goals, known, internal, best, clocks)


def infer_types(core: CoreProgram) -> TypedProgram:
    """A type for every variable and column; every variable is bound."""
    named = core.named
    typed = types(core.rules, core.known, named.found, named.objects, core.goals)
    safety([rule for rule in typed.rules if rule.head not in core.best], named.found)
    return TypedProgram(core, typed, with_open(typed.facts, typed.open_facts))


def order_cliques(program: TypedProgram) -> Checked:
    """The relations and their cliques in order, or a CaladanError with all that is wrong."""
    core, typed, facts = program.core, program.typed, program.facts
    named, best, internal, found = core.named, core.best, core.internal, core.named.found
    relations = _relations(core.known, internal, best, typed, named.columns, found)
    relations |= {name: replace(relations[name], origin=of) for name, of in named.rows.items()}
    goals = tuple(
        _goal(g, relations, found, named.objects)
        for g in core.goals
        if g.atom.relation in relations
        and relations[g.atom.relation].arity == len(g.atom.arguments)
    )
    derived = [n for n, r in relations.items() if r.is_derived]
    rules = tuple(_wrap_contributions(r, relations[r.head]) for r in typed.rules)
    cliques = strata(rules, derived, found, internal)
    for clique in cliques:
        for value, name in best.items():
            if value in clique.relations and name in clique.relations:
                found.add(
                    "C015",
                    f"`{name}` keeps a witness but depends on itself through another relation",
                    next(r.span for r in rules if r.head == name),
                    help="witnesses are chosen after the best values: its rules cannot read a "
                    "relation that reads it",
                )
    found.hide(internal)
    found.raise_errors()
    monotone(cliques, relations, facts, found, named.made, core.clocks)
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
                    help="use the same function in all rules of the relation, or use two relations",
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
                help="rename the facts, and add a rule that reads them",
            )


def _wrap_contributions(rule: CoreRule, relation: RelationInfo) -> CoreRule:
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
