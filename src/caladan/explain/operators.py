"""Stage `operators`: the operator trees, in the form BigDatalog prints them.

A line is `depth: (what) <OPERATOR>`, its inputs below it. A join condition names columns of its
left input `0.` and of its right input `1.` as these show them: a leaf of a relation that takes data
shows the declared columns, other leaves the rule's variables. Where a declared name would mean two
things in one rule, the leaf says what its columns are called: `arc(A, B) AS (X, Y)`; so does one
whose arguments select. A projection that changes nothing is left out.

`PlanTrees` draws the same trees as plans (logical.py, frames.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from caladan.analysis.core import CoreGoal, RelationInfo
from caladan.explain.labels import Labels, labels
from caladan.explain.terms import commas, comparisons, counted, expression, expressions
from caladan.explain.tree import Tree
from caladan.pipeline import Compiled
from caladan.program import Aggregate, Constant, Variable
from caladan.rules.body import Scan, ScanKind
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
)


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
        yield from _plan(rule.plan, labels(rule.plan), depth + 1)


def _titled(title: str, lines: Sequence[str]) -> list[str]:
    return [title, *lines] if lines else []


def _rules(rules: Sequence[RuleOperators], info: RelationInfo) -> Iterator[str]:
    return (line for rule in rules for line in _rule(rule, info, 1))


def _rule(rule: RuleOperators, info: RelationInfo, depth: int) -> Iterator[str]:
    names = labels(rule.plan)
    if info.has_aggregates:
        arguments = commas(
            f"{a.function}({expressions(a.terms, names.of(rule.plan)) or '_'})"
            if isinstance(a, Aggregate)
            else expression(a, names.of(rule.plan))
            for a in rule.rule.arguments
        )
        yield f"{' ' * depth}{depth}: ({arguments}) <AGGREGATE>"
        depth += 1
    yield from _plan(rule.plan, names, depth)


def _given(info: RelationInfo, program: OperatorProgram, depth: int) -> Iterator[str]:
    """Facts that are not derived: data, and facts in the program."""
    margin = f"{' ' * depth}{depth}: "
    if info.takes_data:
        yield f"{margin}{info.name}({commas(c.name for c in info.columns)}) <BASE_RELATION>"
    facts = program.checked.facts.get(info.name, ())
    if facts:
        yield f"{margin}{counted(len(facts), 'fact')} of {info.name} <FACTS>"


def _plan(node: Operator, names: Labels, depth: int) -> Iterator[str]:
    if isinstance(node, Project) and is_identity(node):
        yield from _plan(node.input, names, depth)
        return
    yield f"{' ' * depth}{depth}: {_line(node, names)}"
    for each in _inputs(node):
        yield from _plan(each, names, depth + 1)


def _line(node: Operator, names: Labels) -> str:
    match node:
        case Unit():
            return "() <UNIT>"
        case Scan():
            return f"{leaf(node, names)} <{node.kind.value}>"
        case Join():
            return f"({join_condition(node, names)}) <JOIN>"
        case AntiJoin():
            return f"({join_condition(node, names)}) <NEGATION>"
        case Select():
            return f"({comparisons(node.conditions, names.of(node.input))}) <SELECT>"
        case Extend():
            added = expression(node.binding.expression, names.of(node.input))
            return f"({node.binding.variable} = {added}) <EXTEND>"
        case Prune():
            return f"({commas(names.of(node)[v] for v in node.keep)}) <PROJECT>"
        case Project():
            return f"({projected(node, names)}) <PROJECT>"
        case Sort():
            return f"({cut(node, names)}) <SORT_LIMIT>"


def leaf(node: Scan, names: Labels) -> str:
    """`arc(A, B)`, with `AS (…)` where its arguments select or its columns are renamed."""
    arguments = expressions(node.arguments)
    if node.kind is not ScanKind.BASE:
        return f"{node.relation}({arguments})"
    shown = f"{node.relation}({commas(node.column_names)})"
    return f"{shown} AS ({arguments})" if names.is_renamed(node) else shown


def join_condition(node: Join | AntiJoin, names: Labels) -> str:
    """`0.C = 1.A`; `true` for a cross product."""
    left, right = names.of(node.left), names.of(node.right)
    return " and ".join(f"0.{left[v]} = 1.{right[v]}" for v in node.on) or "true"


def join_columns(node: Join | AntiJoin, names: Labels) -> tuple[str, str]:
    """The columns a join compares, of its left and of its right input."""
    left, right = names.of(node.left), names.of(node.right)
    return commas(left[v] for v in node.on), commas(right[v] for v in node.on)


def projected(node: Project, names: Labels) -> str:
    """The columns, then what tells contributors apart."""
    scope = names.of(node.input)
    columns = expressions(node.columns, scope)
    return f"{columns}; by {expressions(node.keys, scope)}" if node.keys else columns


def cut(node: Sort, names: Labels) -> str:
    """`sort C desc, A; limit 10`."""
    scope = names.of(node.input.input)
    keys = commas(
        f"{expression(node.input.columns[i], scope)}{' desc' if descending else ''}"
        for i, descending in node.cut.order
    )
    parts = [f"sort {keys}"] if keys else []
    if node.cut.limit is not None:
        parts.append(f"limit {node.cut.limit}")
    return "; ".join(parts)


def _inputs(node: Operator) -> tuple[Operator, ...]:
    match node:
        case Unit() | Scan():
            return ()
        case Join() | AntiJoin():
            return (node.left, node.right)
        case Select() | Extend() | Prune() | Project() | Sort():
            return (node.input,)


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


class PlanTrees(ABC):
    """Draws the operators of a rule as a plan: what is said of scans, joins and cuts differs."""

    @abstractmethod
    def scan(self, node: Scan, names: Labels) -> Tree:
        """A relation that is read."""

    @abstractmethod
    def join(self, node: Join | AntiJoin, type: str, names: Labels) -> str:
        """The line of a join."""

    @abstractmethod
    def cut(self, node: Sort, names: Labels) -> str:
        """The line of a sort or limit."""

    def operator(self, node: Operator, names: Labels) -> Tree:
        """An operator, with those below it."""
        match node:
            case Unit():
                return Tree("OneRow")
            case Scan():
                return self.scan(node, names)
            case Join() | AntiJoin():
                type = "LeftAnti" if isinstance(node, AntiJoin) else "Inner" if node.on else "Cross"
                line = self.join(node, type, names)
                return Tree(
                    line, (self.operator(node.left, names), self.operator(node.right, names))
                )
            case Select():
                line = f"Filter ({comparisons(node.conditions, names.of(node.input))})"
            case Extend():
                added = expression(node.binding.expression, names.of(node.input))
                line = f"Project [*, {added} AS {node.binding.variable}]"
            case Prune():
                line = f"Project [{commas(names.of(node)[v] for v in node.keep)}]"
            case Project():
                if is_identity(node):
                    return self.operator(node.input, names)
                line = f"Project [{projected(node, names)}]"
            case Sort():
                line = self.cut(node, names)
        return Tree(line, (self.operator(node.input, names),))
