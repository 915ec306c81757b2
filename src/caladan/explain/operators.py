"""Stage `operators`: the operator trees, in the form BigDatalog prints them.

A line is `depth: (what) <OPERATOR>`, its inputs below it. A join condition names columns of its
left input `0.` and of its right input `1.` as these show them: a leaf of a relation that takes data
shows the declared columns, other leaves the rule's variables. Where a declared name would mean two
things in one rule, the leaf says what its columns are called: `arc(A, B) AS (X, Y)`; so does one
whose arguments select. A projection that changes nothing is left out.

`named` says for every operator of a rule what its variables are called. For rules that were made of
SQL, variables have no names of their own: `by_column` calls them by the columns that bind them, as
SQL does, and numbers relations that a rule reads twice (`path1.B = path2.A`). `PlanTrees` draws the
same trees as plans (logical.py, frames.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from caladan.analysis.core import CoreGoal, RelationInfo
from caladan.explain.terms import Tree, comparisons, expression, expressions
from caladan.language.deals.printer import commas
from caladan.pipeline import Compiled
from caladan.program import Aggregate, Constant, Variable, names
from caladan.program.notation import counted
from caladan.program.transform import walk
from caladan.rules.body import Binding, Scan, ScanKind
from caladan.rules.operators import (
    AntiJoin,
    CliqueOperators,
    Extend,
    Join,
    Operator,
    OperatorProgram,
    Project,
    Prune,
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


def named(plan: Project | Sort, *, by_column: bool = False) -> NamedOperator:
    """A rule's tree with its names: those of leaves are decided from the left."""
    bound = {part.variable for part in walk(plan) if isinstance(part, Binding)}
    variables = (names(plan) | bound) - {"_"}
    aliases = iter(_aliases(plan) if by_column else ())

    def visit(node: Operator, bound: Mapping[str, str]) -> NamedOperator:
        match node:
            case Unit():
                return NamedOperator(node, {})
            case Scan():
                alias = next(aliases, None)
                return _leaf(node, bound, variables) if alias is None else _qualified(node, alias)
            case Join() | AntiJoin():
                left = visit(node.left, bound)
                right = visit(node.right, {**bound, **left.names})
                both = {**right.names, **left.names} if isinstance(node, Join) else left.names
                return NamedOperator(node, both, (left, right))
            case _:
                below = visit(node.input, bound)
                found = below.names
                if isinstance(node, Extend):
                    found = {**found, node.binding.variable: node.binding.variable}
                elif isinstance(node, Prune):
                    found = {v: found[v] for v in node.keep}
                return NamedOperator(node, found, (below,))

    return visit(plan, {})


def _aliases(plan: Operator) -> list[str]:
    """What the leaves are called by their relations, with numbers where one is read twice."""
    relations = list(_relations(plan))
    times, seen = Counter(relations), Counter[str]()
    found: list[str] = []
    for relation in relations:
        seen[relation] += 1
        found.append(f"{relation}{seen[relation]}" if times[relation] > 1 else relation)
    return found


def _relations(node: Operator) -> Iterator[str]:
    if isinstance(node, Scan):
        yield node.relation
    for each in inputs(node):
        yield from _relations(each)


def _places(node: Scan) -> list[tuple[str, str]]:
    """The variables of an atom, each with a column that it stands in."""
    pairs = zip(node.arguments, node.column_names, strict=True)
    return [(a.name, c) for a, c in pairs if not isinstance(a, Constant) and not a.is_anonymous]


def _qualified(node: Scan, alias: str) -> NamedOperator:
    return NamedOperator(node, {v: f"{alias}.{c}" for v, c in reversed(_places(node))})


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
                f"0: {_numbered(info)} <{kind}>",
                *_titled("Exit Rules:", [*_given(info, program, 1), *_rules(exits, info)]),
                *_titled("Recursive Rules:", list(_rules(recursive, info))),
            ]
        else:
            yield [f"0: {_numbered(info)} <RELATION>", *_union(exits, info, program)]


def _union(
    rules: Sequence[RuleOperators], info: RelationInfo, program: OperatorProgram
) -> Iterator[str]:
    """What a relation outside recursion is made of: all rules and facts feed the same groups."""
    sources = len(rules) + sum(1 for _ in _given(info, program, 0))
    if sources == 1:
        yield from _given(info, program, 1)
        yield from _rules(rules, info)
        return
    depth = 1
    if info.has_aggregates:
        yield f" 1: ({commas(_variables(info))}) <AGGREGATE>"
        depth = 2
    yield f"{' ' * depth}{depth}: {counted(sources, 'input')} <UNION>"
    yield from _given(info, program, depth + 1)
    for rule in rules:
        yield from _plan(named(rule.plan), depth + 1)


def _titled(title: str, lines: Sequence[str]) -> list[str]:
    return [title, *lines] if lines else []


def _rules(rules: Sequence[RuleOperators], info: RelationInfo) -> Iterator[str]:
    return (line for rule in rules for line in _rule(rule, info, 1))


def _rule(rule: RuleOperators, info: RelationInfo, depth: int) -> Iterator[str]:
    plan = named(rule.plan)
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


def _given(info: RelationInfo, program: OperatorProgram, depth: int) -> Iterator[str]:
    """Facts that are not derived: data, and facts in the program."""
    margin = f"{' ' * depth}{depth}: "
    if info.takes_data:
        yield f"{margin}{info.name}({commas(c.name for c in info.columns)}) <BASE_RELATION>"
    facts = program.checked.facts.get(info.name, ())
    if facts:
        yield f"{margin}{counted(len(facts), 'fact')} of {info.name} <FACTS>"


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
            pairs = zip(*join_columns(node, *below), strict=True)
            condition = " and ".join(f"0.{left} = 1.{right}" for left, right in pairs) or "true"
            return f"({condition}) <{'JOIN' if isinstance(node, Join) else 'NEGATION'}>"
        case Select() as node:
            return f"({comparisons(node.conditions, below[0])}) <SELECT>"
        case Extend() as node:
            added = expression(node.binding.expression, below[0])
            return f"({node.binding.variable} = {added}) <EXTEND>"
        case Prune() as node:
            return f"({commas(named.names[v] for v in node.keep)}) <PROJECT>"
        case Project() as node:
            return f"({projected(node, below[0])}) <PROJECT>"
        case Sort() as node:
            return f"({cut(node, below[0])}) <SORT_LIMIT>"


def _leaf_line(node: Scan, *, is_renamed: bool) -> str:
    """`arc(A, B)`, with `AS (…)` where its arguments select or its columns are renamed."""
    arguments = expressions(node.arguments)
    if node.kind is not ScanKind.BASE:
        return f"{node.relation}({arguments})"
    shown = f"{node.relation}({commas(node.column_names)})"
    return f"{shown} AS ({arguments})" if is_renamed else shown


def join_columns(
    node: Join | AntiJoin, left: Mapping[str, str], right: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """The columns a join compares, of its left and of its right input."""
    return [left[v] for v in node.on], [right[v] for v in node.on]


def projected(node: Project, names: Mapping[str, str]) -> str:
    """The columns, then what tells contributors apart."""
    columns = expressions(node.columns, names)
    return f"{columns}; by {expressions(node.keys, names)}" if node.keys else columns


def cut(node: Sort, names: Mapping[str, str]) -> str:
    """`sort C desc, A; limit 10`."""
    keys = commas(
        f"{expression(node.input.columns[i], names)}{' desc' if descending else ''}"
        for i, descending in node.cut.order
    )
    parts = [f"sort {keys}"] if keys else []
    if node.cut.limit is not None:
        parts.append(f"limit {node.cut.limit}")
    return "; ".join(parts)


def is_identity(node: Project) -> bool:
    """Whether a projection hands on its input as it is."""
    return not node.keys and node.columns == tuple(Variable(v) for v in node.input.variables)


def _numbered(info: RelationInfo) -> str:
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


def renamed(tree: Tree, node: Scan, names: Mapping[str, str]) -> Tree:
    """A scan below what its columns are called, where users wrote another name for one."""
    first = {v: c for v, c in reversed(_places(node)) if not v.startswith("_")}
    called = [f"{c} AS {names[v]}" for v, c in reversed(first.items()) if names.get(v, c) != c]
    return Tree(f"Rename [{commas(called)}]", (tree,)) if called else tree


class PlanTrees(ABC):
    """Draws the operators of a rule as a plan: what is said of scans, joins and cuts differs."""

    @abstractmethod
    def scan(self, node: Scan, names: Mapping[str, str]) -> Tree:
        """A relation that is read."""

    @abstractmethod
    def join(self, node: Join | AntiJoin, type: str, columns: tuple[list[str], list[str]]) -> str:
        """The line of a join on columns of its left and of its right side."""

    @abstractmethod
    def cut(self, node: Sort, names: Mapping[str, str]) -> str:
        """The line of a sort or limit."""

    def operator(self, named: NamedOperator) -> Tree:
        """An operator, with those below it."""
        below = [each.names for each in named.inputs]
        match named.operator:
            case Unit():
                return Tree("OneRow")
            case Scan() as node:
                return self.scan(node, named.names)
            case (Join() | AntiJoin()) as node:
                type = "LeftAnti" if isinstance(node, AntiJoin) else "Inner" if node.on else "Cross"
                line = self.join(node, type, join_columns(node, *below))
            case Select() as node:
                line = f"Filter ({comparisons(node.conditions, below[0])})"
            case Extend() as node:
                added = expression(node.binding.expression, below[0])
                line = f"Project [*, {added} AS {node.binding.variable}]"
            case Prune() as node:
                line = f"Project [{commas(named.names[v] for v in node.keep)}]"
            case Project() as node:
                if is_identity(node):
                    return self.operator(named.inputs[0])
                line = f"Project [{projected(node, below[0])}]"
            case Sort() as node:
                line = self.cut(node, below[0])
        return Tree(line, tuple(map(self.operator, named.inputs)))
