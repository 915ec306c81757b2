"""The logical plan: recursion as an operator, and columns with names, numbers and types.

    Project [A#12 AS Var_1#14, B#1 AS Var_2#15]           what a goal reads
    +- Recursion tc, [Driver], [1, 0]                     a clique; tc is partitioned by its first
       :- LogicalRDD [A#0, B#1]                           exit rules
       +- Project [A#12, B#1]                             recursive rules
          +- Join Inner, (C#13 = A#0)
             :- LinearRecursiveRelation tc, [A#12, C#13], [1, 0]
             +- BroadcastHint
                +- Project [A#0, B#1]
                   +- LogicalRDD [A#0, B#1]

`plan_recursion` makes the unresolved plan of an operator program: scans get the aliases by which
rules know them; recursion says how it is partitioned, and what every task needs has a hint.
`analyze_plan` gives every column of every scan its number and type. `optimize_plan` applies
`REWRITES`, one after another: aliases go; a recursive rule becomes one for each atom that can bring
new facts; what is new comes first, and conditions stand where their variables are bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final, TypeAlias

from caladan.analysis.core import Clique, CoreGoal, CoreRule, HasFacts, RelationInfo
from caladan.program import Column, Comparison, Expression, Variable
from caladan.rules.body import (
    Attribute,
    Body,
    Cut,
    Scan,
    ScanKind,
    Version,
    body_in_order,
)
from caladan.rules.operators import (
    AntiJoin,
    BroadcastHint,
    CliqueOperators,
    Join,
    Operator,
    OperatorProgram,
    Project,
    RuleOperators,
    Select,
    Sort,
    SubqueryAlias,
    Unit,
    inputs,
    tree,
    with_leaves,
)
from caladan.rules.pivot import pivot
from caladan.rules.program import Contributors


@dataclass(frozen=True)
class LogicalRule:
    """The plan of a rule: a tree, and once it is optimized the body whose tree that is.

    `seed` is the atom whose new facts it starts from. `output` are its columns, `computed` those
    variables that no scan binds, once they are analyzed.
    """

    rule: CoreRule
    written: Project | Sort
    contributors: tuple[Contributors, ...]
    seed: int | None = None
    body: Body | None = None
    output: tuple[Attribute, ...] = ()
    computed: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])

    @property
    def tree(self) -> Project | Sort:
        """What computes its solutions."""
        return self.written if self.body is None else tree(self.body)


@dataclass(frozen=True, slots=True)
class LogicalClique:
    """The plans of a clique's rules: a Recursion, or a relation that does not read itself.

    `pivot` is the column of each relation that every recursive rule carries, if there is one.
    """

    clique: Clique
    pivot: Mapping[str, int] | None
    exits: tuple[LogicalRule, ...]
    recursive: tuple[LogicalRule, ...]

    def partitioning(self, info: RelationInfo) -> tuple[int, ...]:
        """The columns that say where a fact belongs: its pivot, or all that tell facts apart."""
        return info.group if self.pivot is None else (self.pivot[info.name],)


@dataclass(frozen=True, slots=True)
class LogicalPlan(HasFacts):
    """The plans of all cliques in evaluation order, and of what is asked for.

    `schema` are the columns of relations that are read, `answers` those of every relation that is
    asked for, by its name. `last` is the last number that was given to a column.
    """

    relations: Mapping[str, RelationInfo]
    cliques: tuple[LogicalClique, ...]
    goals: tuple[CoreGoal, ...]
    wanted: tuple[str, ...]
    schema: Mapping[str, tuple[Attribute, ...]]
    answers: Mapping[str, tuple[Attribute, ...]]
    last: int


def _number_columns(columns: Iterable[Column], ids: Iterator[int]) -> tuple[Attribute, ...]:
    return tuple(Attribute(column.name, next(ids), column.type) for column in columns)


# ── Unresolved ───────────────────────────────────────────────────────────────────────────────────


def plan_recursion(program: OperatorProgram) -> LogicalPlan:
    """The unresolved plan; columns of recursion are named by the variables that they meet."""
    ids = count()
    relations = program.relations
    derived = {name for clique in program.cliques for name in clique.clique.relations}
    schema = {n: _number_columns(i.columns, ids) for n, i in relations.items() if n not in derived}
    cliques = tuple(plan_clique(each, relations, ids) for each in program.cliques)
    asked = dict.fromkeys((*(goal.relation for goal in program.goals), *program.wanted))
    answers = {
        name: tuple(
            Attribute(f"Var_{i}", next(ids), column.type)
            for i, column in enumerate(relations[name].columns, 1)
        )
        for name in asked
    }
    return LogicalPlan(
        relations, cliques, program.goals, program.wanted, schema, answers, next(ids) - 1,
        facts=program.facts, open_facts=program.open_facts,
    )  # fmt: skip


def plan_clique(
    operators: CliqueOperators,
    relations: Mapping[str, RelationInfo],
    ids: Iterator[int],
) -> LogicalClique:
    """The plans of a clique's rules.

    Where a column is carried, facts are derived where they belong if every task has what recursive
    rules meet in other columns: that is sent to all.
    """
    clique = operators.clique
    carried = pivot(clique, relations)

    def made(each: RuleOperators) -> LogicalRule:
        number = 0

        def leaf(scan: Scan) -> Operator:
            nonlocal number
            number += 1
            if scan.kind is ScanKind.RECURSIVE:
                scan = replace(scan, attributes=_number_columns(_name_columns(scan), ids))
            elif kept is not None and scan.variables and kept not in scan.arguments:
                return BroadcastHint(SubqueryAlias(scan, f"{scan.relation}{number}"))
            return SubqueryAlias(scan, f"{scan.relation}{number}")

        is_kept = carried is not None and clique.is_recursive_rule(each.rule)
        kept = each.rule.arguments[carried[each.rule.head]] if carried and is_kept else None
        written = each.plan if is_copy(each.plan) else with_leaves(each.plan, leaf)
        assert isinstance(written, Project | Sort)
        return LogicalRule(each.rule, written, each.contributors)

    exits, recursive = map(made, operators.exit), map(made, operators.recursive)
    return LogicalClique(clique, carried, tuple(exits), tuple(recursive))


def is_copy(node: Operator) -> bool:
    """True if a tree hands on a relation as it is."""
    if not isinstance(node, Project) or not isinstance(scan := node.input, Scan) or node.keys:
        return False
    return scan.arguments == node.columns and len(scan.variables) == len(scan.columns)


def _name_columns(scan: Scan) -> Iterator[Column]:
    for argument, column in zip(scan.arguments, scan.columns, strict=True):
        if isinstance(argument, Variable) and not argument.is_anonymous:
            column = replace(column, name=argument.name)
        yield column


# ── Analyzed ─────────────────────────────────────────────────────────────────────────────────────


def analyze_plan(plan: LogicalPlan) -> LogicalPlan:
    """Numbers and types for the columns of every scan, in the order of evaluation.

    A relation's own numbers, for the first time that a rule reads it; after that it has others.
    """
    ids = count(plan.last + 1)
    schema = dict(plan.schema)

    def resolved(each: LogicalRule) -> LogicalRule:
        taken: set[str] = set()
        bound: dict[str, Attribute] = {}

        def leaf(scan: Scan) -> Scan:
            attributes = scan.attributes
            if not attributes and scan.relation in schema and scan.relation not in taken:
                taken.add(scan.relation)
                attributes = schema[scan.relation]
            elif not attributes:
                attributes = _number_columns(scan.columns, ids)
            for argument, attribute in zip(scan.arguments, attributes, strict=True):
                if isinstance(argument, Variable):
                    bound.setdefault(argument.name, attribute)
            return replace(scan, attributes=attributes)

        written = with_leaves(each.written, leaf)
        assert isinstance(written, Project | Sort)
        computed = {
            name: Attribute(name, next(ids), type)
            for name, type in each.rule.types.items()
            if name not in bound
        }
        columns = plan.relations[each.rule.head].columns
        made = written if isinstance(written, Project) else written.input
        known = {**bound, **computed}
        output = tuple(
            known[given.name]
            if isinstance(given, Variable) and given.name in known
            else Attribute(column.name, next(ids), column.type)
            for given, column in zip(made.columns, columns, strict=False)
        )
        return replace(each, written=written, output=output, computed=computed)

    cliques: list[LogicalClique] = []
    for clique in plan.cliques:
        exits = tuple(map(resolved, clique.exits))
        recursive = tuple(map(resolved, clique.recursive))
        for name in clique.clique.relations:
            rules = (r.output for r in (*recursive, *exits) if r.rule.head == name)
            columns = plan.relations[name].columns
            schema[name] = next(rules, None) or _number_columns(columns, ids)
        cliques.append(replace(clique, exits=exits, recursive=recursive))
    return replace(plan, cliques=tuple(cliques), schema=schema, last=next(ids) - 1)


# ── Optimized ────────────────────────────────────────────────────────────────────────────────────

Rewrite: TypeAlias = Callable[
    [LogicalRule, LogicalClique, Mapping[str, RelationInfo]], list[LogicalRule]
]
"""What a rule of a clique becomes: itself in another form, or several."""


def eliminate_aliases(
    plan: LogicalRule, _clique: LogicalClique, _relations: Mapping[str, RelationInfo]
) -> list[LogicalRule]:
    """Scans without names: columns are told apart by their numbers."""

    def bare(node: Operator) -> Operator:
        match node:
            case SubqueryAlias():
                return node.input
            case Unit() | Scan():
                return node
            case Join() | AntiJoin():
                return replace(node, left=bare(node.left), right=bare(node.right))
            case _:
                return replace(node, input=bare(node.input))  # type: ignore[arg-type]

    written = bare(plan.written)
    assert isinstance(written, Project | Sort)
    return [replace(plan, written=written)]


def seed_deltas(
    plan: LogicalRule, clique: LogicalClique, relations: Mapping[str, RelationInfo]
) -> list[LogicalRule]:
    """A recursive rule for each atom of the clique, which is read as what is new.

    For `d <- a, b, c` over the clique, with x old facts, δx new and x' both, the new facts come
    from `δa b' c'`, `a δb c'` and `a b δc`: no combination is derived twice. A relation whose
    values are improved in place (mmin, msum …) is read as x' throughout: old values are of no use.
    """
    rule = plan.rule
    places = [
        i
        for i, atom in enumerate(rule.atoms)
        if atom.relation in clique.clique.relations and not atom.negated
    ]

    def seeded(number: int, seed: int) -> LogicalRule:
        passed = -1

        def version(scan: Scan) -> Scan:
            nonlocal passed
            if scan.kind is not ScanKind.RECURSIVE:
                return scan
            passed += 1
            if passed == number:
                return replace(scan, version=Version.DELTA)
            old = passed < number and not relations[scan.relation].has_aggregates
            return replace(scan, version=Version.OLD if old else Version.NEW)

        written = with_leaves(plan.written, version)
        assert isinstance(written, Project | Sort)
        return replace(plan, written=written, seed=seed)

    return [seeded(number, seed) for number, seed in enumerate(places)] or [plan]


def push_down(
    plan: LogicalRule, _clique: LogicalClique, _relations: Mapping[str, RelationInfo]
) -> list[LogicalRule]:
    """What is new first, then what shares variables; conditions where these are bound.

    Variables that nothing reads any more are dropped before the next join.
    """
    node: Operator = plan.written
    cut: Cut | None = None
    columns: tuple[Expression, ...] = ()
    keys: tuple[Expression, ...] = ()
    conditions: list[Comparison] = []
    negated: list[Scan] = []
    while not isinstance(node, Join | Scan | Unit | BroadcastHint):
        match node:
            case Sort():
                cut = node.cut
            case Project():
                columns, keys = node.columns, node.keys
            case Select():
                conditions += node.conditions
            case AntiJoin():
                negated.insert(0, next(_scans(node.right)))
            case _:
                raise AssertionError("a rule is a projection of a selection of joins")
        node = inputs(node)[0]
    scans = list(_scans(node))
    body = body_in_order(plan.rule, scans, negated, conditions, columns, keys, cut)
    return [replace(plan, body=body)]


def _scans(node: Operator, *, is_broadcast: bool = False) -> Iterator[Scan]:
    match node:
        case Scan():
            yield replace(node, is_broadcast=True) if is_broadcast else node
        case BroadcastHint():
            yield from _scans(node.input, is_broadcast=True)
        case _:
            for each in inputs(node):
                yield from _scans(each)


REWRITES: Final[tuple[Rewrite, ...]] = (eliminate_aliases, seed_deltas, push_down)


def optimize_plan(plan: LogicalPlan) -> LogicalPlan:
    """The plan after all rewrites: its rules have the bodies that engines evaluate."""
    cliques = tuple(optimize_clique(clique, plan.relations) for clique in plan.cliques)
    return replace(plan, cliques=cliques)


def optimize_clique(clique: LogicalClique, relations: Mapping[str, RelationInfo]) -> LogicalClique:
    """All rewrites of the rules of a clique."""
    for rewrite in REWRITES:
        exits = [made for rule in clique.exits for made in rewrite(rule, clique, relations)]
        recursive = [made for rule in clique.recursive for made in rewrite(rule, clique, relations)]
        clique = replace(clique, exits=tuple(exits), recursive=tuple(recursive))
    return clique
