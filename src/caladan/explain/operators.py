"""Stage `operators`: the operator trees, in the form BigDatalog prints them.

A line is `depth: (what) <OPERATOR>`, its inputs below it. A join condition names columns of its
left input `0.` and of its right input `1.` as these show them: a leaf of a relation that takes data
shows the declared columns, other leaves the rule's variables. Where a declared name would mean two
things in one rule, the leaf says what its columns are called: `arc(A, B) AS (X, Y)`; so does one
whose arguments select. A projection that changes nothing is left out.

`name_operators` says for every operator of a rule what its variables are called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from caladan.analysis.core import CoreGoal, RelationInfo
from caladan.explain.terms import comparisons, describe_sort, expression, expressions
from caladan.language.deals.printer import commas
from caladan.pipeline import Compiled
from caladan.program import Aggregate, Constant, Variable, names
from caladan.program.notation import count_things
from caladan.rules.body import Scan, ScanKind
from caladan.rules.operators import (
    AntiJoin,
    CliqueOperators,
    Join,
    Operator,
    OperatorProgram,
    Project,
    RuleOperators,
    Select,
    Sort,
    Unit,
    inputs,
)

# ── What variables are called ────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class NamedOperator:
    """An operator of a rule, what its variables are called, and the operators below it.

    `is_renamed` is for leaves that have to say what their columns are called.
    """

    operator: Operator
    names: Mapping[str, str]
    inputs: tuple[NamedOperator, ...] = ()
    is_renamed: bool = False


def name_operators(plan: Project | Sort) -> NamedOperator:
    """A rule's tree with its names: those of leaves are decided from the left."""
    variables = names(plan) - {"_"}

    def visit(node: Operator, bound: Mapping[str, str]) -> NamedOperator:
        match node:
            case Unit():
                return NamedOperator(node, {})
            case Scan():
                return _leaf(node, bound, variables)
            case Join() | AntiJoin():
                left = visit(node.left, bound)
                right = visit(node.right, {**bound, **left.names})
                both = {**right.names, **left.names} if isinstance(node, Join) else left.names
                return NamedOperator(node, both, (left, right))
            case _:
                (one,) = inputs(node)
                below = visit(one, bound)
                return NamedOperator(node, below.names, (below,))

    return visit(plan, {})


def _places(node: Scan) -> list[tuple[str, str]]:
    """The variables of an atom, each with a column that it stands in."""
    pairs = zip(node.arguments, node.column_names, strict=True)
    return [(a.name, c) for a, c in pairs if not isinstance(a, Constant) and not a.is_anonymous]


def _leaf(node: Scan, bound: Mapping[str, str], variables: frozenset[str]) -> NamedOperator:
    """A leaf, given the names to the left of it and the rule's variables.

    One of a relation that takes data shows the declared names, as long as each of them means one
    thing within the rule.
    """
    own = {v: v for v in node.variables}
    if node.kind is not ScanKind.BASE:
        return NamedOperator(node, own)
    places = _places(node)
    declared = dict(places)
    selects = len(declared) < len(places) or any(isinstance(a, Constant) for a in node.arguments)
    taken = variables | set(bound.values())
    clashes = any(
        label != name and label in taken for name, label in declared.items() if name not in bound
    )
    if selects or clashes:
        return NamedOperator(node, own, is_renamed=True)
    return NamedOperator(node, declared)


# ── The operator program ─────────────────────────────────────────────────────────────────────────


def operators(compiled: Compiled) -> str:
    """Every clique in evaluation order, then the goals that select."""
    program = compiled.operators
    blocks = [block for clique in program.cliques for block in _clique(clique, program)]
    blocks += [_goal(goal, program) for goal in program.goals if _selects(goal)]
    return "\n\n".join("\n".join(block) for block in blocks) or "(no rules)"


def _clique(clique: CliqueOperators, program: OperatorProgram) -> Iterator[list[str]]:
    several = len(clique.clique.relations) > 1
    for name in clique.clique.relations:
        info = program.relations[name]
        exits = [r for r in clique.exit if r.rule.head == name]
        if clique.clique.is_recursive:
            kind = "MUTUAL_RECURSIVE_CLIQUE" if several else "RECURSIVE_CLIQUE"
            recursive = [r for r in clique.recursive if r.rule.head == name]
            yield [
                f"0: {_number_columns(info)} <{kind}>",
                *_add_title("Exit Rules:", [*_list_given(info, program, 1), *_rules(exits, info)]),
                *_add_title("Recursive Rules:", list(_rules(recursive, info))),
            ]
        else:
            yield [f"0: {_number_columns(info)} <RELATION>", *_union(exits, info, program)]


def _union(
    rules: Sequence[RuleOperators], info: RelationInfo, program: OperatorProgram
) -> Iterator[str]:
    """What a relation outside recursion is made of: all rules and facts feed the same groups."""
    sources = len(rules) + sum(1 for _ in _list_given(info, program, 0))
    if sources == 1:
        yield from _list_given(info, program, 1)
        yield from _rules(rules, info)
        return
    depth = 1
    if info.has_aggregates:
        yield f" 1: ({commas(_variables(info))}) <AGGREGATE>"
        depth = 2
    yield f"{' ' * depth}{depth}: {count_things(sources, 'input')} <UNION>"
    yield from _list_given(info, program, depth + 1)
    for rule in rules:
        yield from _plan(name_operators(rule.plan), depth + 1)


def _add_title(title: str, lines: Sequence[str]) -> list[str]:
    return [title, *lines] if lines else []


def _rules(rules: Sequence[RuleOperators], info: RelationInfo) -> Iterator[str]:
    return (line for rule in rules for line in _rule(rule, info, 1))


def _rule(rule: RuleOperators, info: RelationInfo, depth: int) -> Iterator[str]:
    plan = name_operators(rule.plan)
    if info.has_aggregates:
        arguments = commas(
            f"{a.function}({expressions(a.terms, plan.names) or '_'})"
            if isinstance(a, Aggregate)
            else expression(a, plan.names)
            for a in rule.rule.arguments
        )
        yield f"{' ' * depth}{depth}: ({arguments}) <AGGREGATE>"
        depth += 1
    yield from _plan(plan, depth)


def _list_given(info: RelationInfo, program: OperatorProgram, depth: int) -> Iterator[str]:
    """Facts that are not derived: data, and facts in the program."""
    margin = f"{' ' * depth}{depth}: "
    if info.takes_data:
        yield f"{margin}{info.name}({commas(c.name for c in info.columns)}) <BASE_RELATION>"
    facts = program.facts.get(info.name, ())
    if facts:
        yield f"{margin}{count_things(len(facts), 'fact')} of {info.name} <FACTS>"


def _plan(node: NamedOperator, depth: int) -> Iterator[str]:
    if isinstance(node.operator, Project) and is_identity(node.operator):
        yield from _plan(node.inputs[0], depth)
        return
    yield f"{' ' * depth}{depth}: {_line(node)}"
    for each in node.inputs:
        yield from _plan(each, depth + 1)


def _line(named: NamedOperator) -> str:
    below = [each.names for each in named.inputs]
    match named.operator:
        case Unit():
            return "() <UNIT>"
        case Scan() as node:
            return f"{_leaf_line(node, is_renamed=named.is_renamed)} <{node.kind.value}>"
        case (Join() | AntiJoin()) as node:
            left, right = below
            pairs = (f"0.{left.get(v, v)} = 1.{right[v]}" for v in node.on)
            condition = " and ".join(pairs) or "true"
            return f"({condition}) <{'JOIN' if isinstance(node, Join) else 'NEGATION'}>"
        case Select() as node:
            return f"({comparisons(node.conditions, below[0])}) <SELECT>"
        case Project() as node:
            return f"({describe_projection(node, below[0])}) <PROJECT>"
        case Sort() as node:
            return f"({describe_sort(node, below[0])}) <SORT_LIMIT>"
        case _:
            raise AssertionError("rules as they were written have no other operators")


def _leaf_line(node: Scan, *, is_renamed: bool) -> str:
    """`arc(A, B)`, with `AS (…)` where its arguments select or its columns are renamed."""
    arguments = expressions(node.arguments)
    if node.kind is not ScanKind.BASE:
        return f"{node.relation}({arguments})"
    shown = f"{node.relation}({commas(node.column_names)})"
    return f"{shown} AS ({arguments})" if is_renamed else shown


def describe_projection(node: Project, names: Mapping[str, str]) -> str:
    """The columns, then what tells contributors apart."""
    columns = expressions(node.columns, names)
    return f"{columns}; by {expressions(node.keys, names)}" if node.keys else columns


def is_identity(node: Project) -> bool:
    """Whether a projection hands on its input as it is."""
    return not node.keys and node.columns == tuple(Variable(v) for v in node.input.variables)


def _number_columns(info: RelationInfo) -> str:
    return f"{info.name}({commas(_variables(info))})"


def _variables(info: RelationInfo) -> Iterator[str]:
    for number, function in enumerate(info.aggregates, start=1):
        yield f"{function}(Var_{number})" if function else f"Var_{number}"


def _selects(goal: CoreGoal) -> bool:
    return any(isinstance(a, Constant) for a in goal.arguments) or len(set(goal.arguments)) < len(
        goal.arguments
    )


def _goal(goal: CoreGoal, program: OperatorProgram) -> list[str]:
    info = program.relations[goal.relation]
    kind = ScanKind.DERIVED if info.is_derived else ScanKind.BASE
    return [
        f"0: {goal.name}({expressions(goal.arguments)}) <SELECT>",
        f" 1: {info.name}({commas(c.name for c in info.columns)}) <{kind.value}>",
    ]
