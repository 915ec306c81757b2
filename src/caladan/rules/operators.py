"""Relational operators: rules as trees of them, as written and as they are evaluated.

    0: tc(Var_1, Var_2) <RECURSIVE_CLIQUE>                tc(A, B) <- tc(A, C), arc(C, B).
     1: (A, B) <PROJECT>
      2: (0.C = 1.A) <JOIN>
       3: tc(A, C) <RECURSIVE_RELATION>
       3: arc(A, B) <BASE_RELATION>

A tree computes the solutions of one rule. Rows are bags whose columns are named by the rule's
variables; a `Scan` renames a relation's columns to them, a `Join` is on the variables both sides
share, and `Project` at the top computes the head's columns by position.

    Unit                       one row without columns: where a body without atoms starts
    Scan(relation, arguments)  facts; constants and repeated variables among the arguments select
    SubqueryAlias(input)       a scan under the name that a rule knows it by, as long as names count
    BroadcastHint(input)       what is sent to all tasks, so that what it meets need not move
    Join(left, right)          natural join; a cross product if nothing is shared
    AntiJoin(left, right)      rows of left without a match: negation
    Select(input, conditions)  rows for which all comparisons hold
    Extend(input, binding)     adds a variable
    Prune(input, keep)         drops variables nobody reads any more
    Project(input, columns)    the head's columns, and contributor keys behind them
    Sort(input, cut)           sorts and limits a rule's solutions

`generate_operators` makes the operator program of checked cliques: every rule as it was written,
its atoms joined from the left, then what is negated, then all comparisons. `tree` is what is made
of a rule in the end: the parts of a body, in their order, as a tree that leans to the left.
Selections stand where their variables are first bound (on the scan itself where one scan binds them
all), and variables that nothing above reads are pruned, except where an aggregate counts every
solution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeAlias

from caladan.analysis.core import Clique, CoreGoal, CoreRule, HasFacts, RelationInfo
from caladan.program import Comparison, Expression, names
from caladan.rules.body import (
    Absence,
    Body,
    BodyBinding,
    BodyPart,
    Cut,
    Scan,
    Version,
    columns_of,
    scan_of,
)
from caladan.rules.program import Contributors
from caladan.rules.sums import contributors
from caladan.rules.support import SupportedProgram


@dataclass(frozen=True, slots=True)
class Unit:
    """One row without columns."""

    @property
    def variables(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class SubqueryAlias:
    """A scan, and what the rule's conditions call it."""

    input: Operator
    alias: str

    @property
    def variables(self) -> tuple[str, ...]:
        return self.input.variables


@dataclass(frozen=True, slots=True)
class BroadcastHint:
    """What is to be sent to all tasks."""

    input: Operator

    @property
    def variables(self) -> tuple[str, ...]:
        return self.input.variables


@dataclass(frozen=True, slots=True)
class Join:
    """The natural join of two inputs; `parts` are those of the body that it takes in."""

    left: Operator
    right: Operator
    parts: tuple[BodyPart, ...]

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
    right: Operator

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
    binding: BodyBinding

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


Operator: TypeAlias = (
    Unit | Scan | SubqueryAlias | BroadcastHint | Join | AntiJoin | Select | Extend | Prune
    | Project | Sort
)  # fmt: skip


def inputs(node: Operator) -> tuple[Operator, ...]:
    """The operators whose rows an operator takes, from the left."""
    match node:
        case Unit() | Scan():
            return ()
        case Join() | AntiJoin():
            return (node.left, node.right)
        case _:
            return (node.input,)


def leaves(node: Operator) -> Iterator[Scan]:
    """The scans below an operator, from the left."""
    if isinstance(node, Scan):
        yield node
    else:
        for each in inputs(node):
            yield from leaves(each)


def with_leaves(node: Operator, change: Callable[[Scan], Operator]) -> Operator:
    """The same tree with other leaves; what stands on what does not change stays as it is."""
    match node:
        case Unit():
            return node
        case Scan():
            return change(node)
        case Join() | AntiJoin():
            left, right = with_leaves(node.left, change), with_leaves(node.right, change)
            same = left is node.left and right is node.right
            return node if same else replace(node, left=left, right=right)
        case _:
            below = with_leaves(node.input, change)
            return node if below is node.input else replace(node, input=below)  # type: ignore[arg-type]


# ── A body as a tree ─────────────────────────────────────────────────────────────────────────────


def tree(body: Body) -> Project | Sort:
    """The tree of a body, its parts in their order."""
    last = max((i for i, part in enumerate(body.parts) if isinstance(part, Scan)), default=0)
    node: Operator = Unit()
    for i, part in enumerate(body.parts):
        node = _grown(node, part, body.parts[: i + 1])
        # Worth it before another join only: the projection at the top prunes too.
        if isinstance(part, Scan) and i < last and not body.counting:
            node = _prune(node, body.needed.union(*map(_read_by, body.parts[i + 1 :])))
    project = Project(node, body.columns, body.keys)
    return project if body.cut is None else Sort(project, body.cut)


def _grown(node: Operator, part: BodyPart, so_far: tuple[BodyPart, ...]) -> Operator:
    match part:
        case Scan():
            return (
                _add_hint(part) if isinstance(node, Unit) else Join(node, _add_hint(part), so_far)
            )
        case Absence():
            return AntiJoin(node, _add_hint(part.scan))
        case BodyBinding():
            return Extend(node, part)
        case Comparison():
            return _select(node, part)


def _add_hint(scan: Scan) -> Scan | BroadcastHint:
    return BroadcastHint(scan) if scan.is_broadcast else scan


def _select(node: Operator, condition: Comparison) -> Operator:
    """A selection, pushed onto the right side of a join if that side binds all it needs."""
    read = names(condition)
    match node:
        case Select():
            return replace(node, conditions=(*node.conditions, condition))
        case Join() if read and read.issubset(node.right.variables):
            right = _select(node.right, condition)
            return replace(node, right=right, parts=(*node.parts, condition))
        case Prune() | BroadcastHint() if read.issubset(node.variables):
            return replace(node, input=_select(node.input, condition))
        case _:
            return Select(node, (condition,))


def _read_by(part: BodyPart) -> frozenset[str]:
    match part:
        case Scan():
            return frozenset(part.variables)
        case Absence():
            return frozenset(part.scan.variables)
        case BodyBinding():
            return names(part.expression)
        case Comparison():
            return names(part)


def _prune(node: Operator, needed: frozenset[str]) -> Operator:
    keep = tuple(v for v in node.variables if v in needed)
    return node if len(keep) == len(node.variables) else Prune(node, keep)


# ── The operators of a program ───────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class RuleOperators:
    """A rule, the tree that computes its solutions, and who contributes to its sums."""

    rule: CoreRule
    plan: Project | Sort
    contributors: tuple[Contributors, ...] = ()


@dataclass(frozen=True, slots=True)
class CliqueOperators:
    """The trees of a clique's rules."""

    clique: Clique
    exit: tuple[RuleOperators, ...]
    recursive: tuple[RuleOperators, ...]


@dataclass(frozen=True, slots=True)
class OperatorProgram(HasFacts):
    """The operators of every clique, in evaluation order, and what the goals read."""

    relations: Mapping[str, RelationInfo]
    cliques: tuple[CliqueOperators, ...]
    goals: tuple[CoreGoal, ...]
    wanted: tuple[str, ...] = ()


def generate_operators(program: SupportedProgram) -> OperatorProgram:
    """The operator program of a checked program; rules that are evaluated get their places."""
    checked, places = program.checked, count()
    cliques: list[CliqueOperators] = []
    for clique in checked.cliques:
        rules = tuple(
            replace(rule, place=next(places), origin=origin_of(rule.head, checked.relations))
            for rule in clique.rules
        )
        cliques.append(generate_clique(replace(clique, rules=rules), checked.relations))
    return OperatorProgram(
        checked.relations, tuple(cliques), checked.goals, program.wanted,
        facts=checked.facts, open_facts=checked.open_facts,
    )  # fmt: skip


def generate_clique(clique: Clique, relations: Mapping[str, RelationInfo]) -> CliqueOperators:
    """The operators of a clique, whose rules have their places."""

    def made(rule: CoreRule) -> RuleOperators:
        keys, places = contributors(rule, clique, relations)
        return RuleOperators(rule, _keep_as_written(rule, clique, relations, keys), places)

    exits = tuple(map(made, clique.exit_rules))
    return CliqueOperators(clique, exits, tuple(map(made, clique.recursive_rules)))


def _keep_as_written(
    rule: CoreRule,
    clique: Clique,
    relations: Mapping[str, RelationInfo],
    keys: tuple[Expression, ...],
) -> Project | Sort:
    """A rule as it was written; what it reads of its clique is all that there is."""
    node: Operator = Unit()
    for atom in rule.positive:
        version = Version.NEW if atom.relation in clique.relations else Version.FULL
        scan = scan_of(atom, relations, clique.relations, version)
        node = scan if isinstance(node, Unit) else Join(node, scan, ())
    for atom in rule.atoms:
        if atom.negated:
            node = AntiJoin(node, scan_of(atom, relations, clique.relations))
    if rule.comparisons:
        node = Select(node, rule.comparisons)
    columns, cut = columns_of(rule)
    project = Project(node, columns, keys)
    return project if cut is None else Sort(project, cut)


def origin_of(name: str, relations: Mapping[str, RelationInfo]) -> str:
    """The user's name for a relation; what was made may be of something that was made."""
    seen: set[str] = set()
    while name in relations and name not in seen and relations[name].origin:
        seen.add(name)
        name = relations[name].origin
    return name
