"""From the steps of a body to a tree of operators.

`rule_plan` folds a schedule into a left-leaning tree: selections stand where their variables are
first bound (on the scan itself where one scan binds them all), and variables that nothing above
reads are pruned, except where an aggregate counts every solution. `OperatorProgram` has the tree of
every rule, clique by clique.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from caladan.analysis.core import Checked, Clique, CoreGoal, CoreRule, RelationInfo
from caladan.analysis.schedule import Absent, Bind, Lookup, Step, Test, schedule
from caladan.program import Aggregate, Comparison, Constant, Expression, variables
from caladan.rules.operators import (
    AntiJoin,
    Cut,
    Extend,
    Join,
    Operator,
    Project,
    Prune,
    Scan,
    ScanKind,
    Select,
    Unit,
    Version,
)

# Aggregates that look at every solution: two solutions with the same value count twice.
_COUNTING = ("sum", "count", "avg", "msum", "mcount")


@dataclass(frozen=True, slots=True)
class RuleOperators:
    """A rule and the tree that computes its solutions."""

    rule: CoreRule
    plan: Project | Cut


@dataclass(frozen=True, slots=True)
class CliqueOperators:
    """The trees of a clique's rules."""

    clique: Clique
    exit: tuple[RuleOperators, ...]
    recursive: tuple[RuleOperators, ...]


@dataclass(frozen=True, slots=True)
class OperatorProgram:
    """The operators of every clique, in evaluation order, and what the goals read."""

    relations: Mapping[str, RelationInfo]
    cliques: tuple[CliqueOperators, ...]
    goals: tuple[CoreGoal, ...]
    checked: Checked


def operators(checked: Checked) -> OperatorProgram:
    """The operator program of a checked program."""
    cliques: list[CliqueOperators] = []
    for clique in checked.cliques:

        def built(rules: Sequence[CoreRule], clique: Clique = clique) -> tuple[RuleOperators, ...]:
            return tuple(
                RuleOperators(rule, rule_plan(rule, clique, checked.relations)) for rule in rules
            )

        cliques.append(
            CliqueOperators(clique, built(clique.exit_rules), built(clique.recursive_rules))
        )
    return OperatorProgram(checked.relations, tuple(cliques), checked.goals, checked)


def rule_plan(
    rule: CoreRule,
    clique: Clique,
    relations: Mapping[str, RelationInfo],
    *,
    first: int | None = None,
    version: Callable[[int], Version] | None = None,
    keys: Sequence[Expression] = (),
) -> Project | Cut:
    """The tree of a rule: from the atom `first`, with scans of the versions asked for."""
    start = first if first is not None else _first(rule)
    steps = schedule(rule, start).steps
    builder = _Builder(rule, clique, relations, version or (lambda _: Version.FULL))
    columns = tuple(_value(a) for a in rule.arguments)
    sorting = tuple(k.variable for k in rule.order if k.variable not in columns)
    needed = _names((*columns, *keys, *sorting))
    counts = any(isinstance(a, Aggregate) and a.function in _COUNTING for a in rule.arguments)
    last = max((i for i, step in enumerate(steps) if isinstance(step, Lookup)), default=0)
    node: Operator = Unit()
    for i, step in enumerate(steps):
        node = builder.step(node, step)
        # Worth it before another join only: the projection at the top prunes too.
        if isinstance(step, Lookup) and i < last and not counts:
            node = _prune(node, needed | _read_by(steps[i + 1 :], rule))
    project = Project(node, (*columns, *sorting), tuple(keys))
    if not rule.order and rule.limit is None:
        return project
    order = tuple((project.columns.index(k.variable), k.descending) for k in rule.order)
    return Cut(project, order, rule.limit, len(columns))


def _first(rule: CoreRule) -> int | None:
    return next((i for i, a in enumerate(rule.atoms) if not a.negated), None)


def _value(argument: Expression) -> Expression:
    """What a head column is fed with: the value of an aggregate, 1 where solutions are counted."""
    if not isinstance(argument, Aggregate):
        return argument
    if argument.function == "countd" or not argument.terms:
        return Constant(1)
    return argument.terms[-1]


def _names(nodes: Sequence[Expression | Comparison]) -> set[str]:
    return {v.name for node in nodes for v in variables(node)}


def _read_by(steps: Sequence[Step], rule: CoreRule) -> set[str]:
    names: set[str] = set()
    for step in steps:
        match step:
            case Lookup() | Absent():
                names.update(rule.atoms[step.index].variables)
            case Bind():
                names |= _names([step.expression])
            case Test():
                names |= _names([step.comparison])
    return names


def _prune(node: Operator, needed: set[str]) -> Operator:
    keep = tuple(v for v in node.variables if v in needed)
    return node if len(keep) == len(node.variables) else Prune(node, keep)


@dataclass(frozen=True, slots=True)
class _Builder:
    rule: CoreRule
    clique: Clique
    relations: Mapping[str, RelationInfo]
    version: Callable[[int], Version]

    def step(self, node: Operator, step: Step) -> Operator:
        match step:
            case Lookup():
                scan = self._scan(step.index)
                return scan if isinstance(node, Unit) else Join(node, scan)
            case Absent():
                return AntiJoin(node, self._scan(step.index))
            case Bind():
                return Extend(node, step.variable, step.expression)
            case Test():
                return _select(node, step.comparison)

    def _scan(self, index: int) -> Scan:
        atom = self.rule.atoms[index]
        info = self.relations[atom.relation]
        if atom.relation in self.clique.relations and not atom.negated:
            kind = ScanKind.RECURSIVE
        else:
            kind = ScanKind.DERIVED if info.is_derived else ScanKind.BASE
        return Scan(
            atom.relation,
            atom.arguments,
            tuple(c.name for c in info.columns),
            kind,
            self.version(index),
        )


def _select(node: Operator, condition: Comparison) -> Operator:
    """A selection, pushed onto the right side of a join if that side binds all it needs."""
    names = _names([condition])
    match node:
        case Select():
            return replace(node, conditions=(*node.conditions, condition))
        case Join() if names and names.issubset(node.right.variables):
            return replace(node, right=_select(node.right, condition))
        case Prune() if names.issubset(node.variables):
            return replace(node, input=_select(node.input, condition))
        case _:
            return Select(node, (condition,))
