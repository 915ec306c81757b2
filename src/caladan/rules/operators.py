"""Bodies as trees of relational operators: a view, for explain and for frames.

A tree computes the solutions of one rule. Rows are bags whose columns are named by the rule's
variables; a `Scan` renames a relation's columns to them, a `Join` is on the variables both sides
share, and `Project` at the top computes the head's columns by position.

    Unit                       one row without columns: where a body without atoms starts
    Scan(relation, arguments)  facts; constants and repeated variables among the arguments select
    Join(left, right)          natural join; a cross product if nothing is shared
    AntiJoin(left, scan)       rows of left without a match: negation
    Select(input, conditions)  rows for which all comparisons hold
    Extend(input, binding)     adds a variable
    Prune(input, keep)         drops variables nobody reads any more
    Project(input, columns)    the head's columns, and contributor keys behind them
    Sort(input, cut)           sorts and limits a rule's solutions

`tree` folds the parts of a body into a tree that leans to the left: selections stand where their
variables are first bound (on the scan itself where one scan binds them all), and variables that
nothing above reads are pruned, except where an aggregate counts every solution. `operators` gives
the trees of a whole program, rule by rule and without deltas, as explain prints them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from caladan.analysis.core import Checked, Clique, CoreGoal, CoreRule, RelationInfo
from caladan.program import Comparison, Expression
from caladan.rules.body import Absence, Binding, Body, Cut, Part, Scan, body_of, names


@dataclass(frozen=True, slots=True)
class Unit:
    """One row without columns."""

    @property
    def variables(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class Join:
    """The natural join of two inputs; `parts` are those of the body that it takes in."""

    left: Operator
    right: Operator
    parts: tuple[Part, ...]

    @property
    def on(self) -> tuple[str, ...]:
        """The shared variables."""
        right = set(self.right.variables)
        return tuple(v for v in self.left.variables if v in right)

    @property
    def variables(self) -> tuple[str, ...]:
        """Those of the left, then what the right adds."""
        left = self.left.variables
        return left + tuple(v for v in self.right.variables if v not in left)


@dataclass(frozen=True, slots=True)
class AntiJoin:
    """The rows of the left input for which the scan has no match."""

    left: Operator
    right: Scan

    @property
    def on(self) -> tuple[str, ...]:
        """The scan's variables; the left binds all of them."""
        return self.right.variables

    @property
    def variables(self) -> tuple[str, ...]:
        return self.left.variables


@dataclass(frozen=True, slots=True)
class Select:
    """The rows for which every comparison holds."""

    input: Operator
    conditions: tuple[Comparison, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        return self.input.variables


@dataclass(frozen=True, slots=True)
class Extend:
    """The input with one more variable."""

    input: Operator
    binding: Binding

    @property
    def variables(self) -> tuple[str, ...]:
        """Those of the input, then the new one."""
        return (*self.input.variables, self.binding.variable)


@dataclass(frozen=True, slots=True)
class Prune:
    """The input without the variables that nobody above reads."""

    input: Operator
    keep: tuple[str, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        return self.keep


@dataclass(frozen=True, slots=True)
class Project:
    """The head's columns, computed; then, for sums in recursion, the contributor's key columns."""

    input: Operator
    columns: tuple[Expression, ...]
    keys: tuple[Expression, ...] = ()

    @property
    def variables(self) -> tuple[str, ...]:
        """Positions instead of variables: the output is no longer a body."""
        return ()


@dataclass(frozen=True, slots=True)
class Sort:
    """A projection, sorted and limited."""

    input: Project
    cut: Cut

    @property
    def variables(self) -> tuple[str, ...]:
        return ()


Operator: TypeAlias = Unit | Scan | Join | AntiJoin | Select | Extend | Prune | Project | Sort


def inputs(node: Operator) -> tuple[Operator, ...]:
    """The operators whose rows an operator takes, from the left."""
    match node:
        case Unit() | Scan():
            return ()
        case Join() | AntiJoin():
            return (node.left, node.right)
        case _:
            return (node.input,)


# ── A body as a tree ─────────────────────────────────────────────────────────────────────────────


def tree(body: Body) -> Project | Sort:
    """The tree of a body, its parts in their order."""
    last = max((i for i, part in enumerate(body.parts) if isinstance(part, Scan)), default=0)
    node: Operator = Unit()
    for i, part in enumerate(body.parts):
        node = _grown(node, part, body.parts[: i + 1])
        # Worth it before another join only: the projection at the top prunes too.
        if isinstance(part, Scan) and i < last and not body.counting:
            node = _pruned(node, body.needed.union(*map(_read_by, body.parts[i + 1 :])))
    project = Project(node, body.columns, body.keys)
    return project if body.cut is None else Sort(project, body.cut)


def _grown(node: Operator, part: Part, so_far: tuple[Part, ...]) -> Operator:
    match part:
        case Scan():
            return part if isinstance(node, Unit) else Join(node, part, so_far)
        case Absence():
            return AntiJoin(node, part.scan)
        case Binding():
            return Extend(node, part)
        case Comparison():
            return _selected(node, part)


def _selected(node: Operator, condition: Comparison) -> Operator:
    """A selection, pushed onto the right side of a join if that side binds all it needs."""
    read = names(condition)
    match node:
        case Select():
            return replace(node, conditions=(*node.conditions, condition))
        case Join() if read and read.issubset(node.right.variables):
            right = _selected(node.right, condition)
            return replace(node, right=right, parts=(*node.parts, condition))
        case Prune() if read.issubset(node.variables):
            return replace(node, input=_selected(node.input, condition))
        case _:
            return Select(node, (condition,))


def _read_by(part: Part) -> frozenset[str]:
    match part:
        case Scan():
            return frozenset(part.variables)
        case Absence():
            return frozenset(part.scan.variables)
        case Binding():
            return names(part.expression)
        case Comparison():
            return names(part)


def _pruned(node: Operator, needed: frozenset[str]) -> Operator:
    keep = tuple(v for v in node.variables if v in needed)
    return node if len(keep) == len(node.variables) else Prune(node, keep)


# ── The trees of a program ───────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class RuleOperators:
    """A rule and the tree that computes its solutions."""

    rule: CoreRule
    plan: Project | Sort


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

    def built(rules: Sequence[CoreRule], clique: Clique) -> tuple[RuleOperators, ...]:
        return tuple(
            RuleOperators(rule, tree(body_of(rule, checked.relations, clique.relations)))
            for rule in rules
        )

    cliques = (
        CliqueOperators(c, built(c.exit_rules, c), built(c.recursive_rules, c))
        for c in checked.cliques
    )
    return OperatorProgram(checked.relations, tuple(cliques), checked.goals, checked)
