"""The relational operators a rule becomes.

A tree of these computes the solutions of one rule. Rows are bags whose columns are named by the
rule's variables; a `Scan` renames a relation's columns to them, a `Join` is on the variables both
sides share, and `Project` at the top computes the head's columns by position.

    Unit                       one row without columns: where a body without atoms starts
    Scan(relation, arguments)  facts; constants and repeated variables among the arguments select
    Join(left, right)          natural join; a cross product if nothing is shared
    AntiJoin(left, scan)       rows of left without a match: negation
    Select(input, conditions)  rows for which all comparisons hold
    Extend(input, variable, e) adds a variable
    Prune(input, keep)         drops variables nobody reads any more
    Project(input, columns)    the head's columns, and contributor keys behind them
    Cut(input, order, limit)   sorts and limits a rule's solutions

`Version` says which facts of a relation of the same clique a scan reads in a round.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from caladan.analysis.core import Term
from caladan.program import Comparison, Expression, Variable


class Version(Enum):
    """Which facts of a relation are read: x is old, δx new in the last round, x' both."""

    FULL = "full"  # a relation of an earlier clique, finished
    OLD = "old"  # x
    DELTA = "delta"  # δx
    NEW = "new"  # x' = x ∪ δx


class ScanKind(Enum):
    """Where a scanned relation comes from, as explain names it."""

    BASE = "BASE_RELATION"
    DERIVED = "DERIVED_RELATION"
    RECURSIVE = "RECURSIVE_RELATION"


@dataclass(frozen=True, slots=True)
class Unit:
    """One row without columns."""

    @property
    def variables(self) -> tuple[str, ...]:
        """None."""
        return ()


@dataclass(frozen=True, slots=True)
class Scan:
    """The facts of a relation that match the arguments, as the variables among them.

    `columns` are the relation's own column names, for explain. In an AntiJoin the scan may hold
    `_` arguments, which match anything and are not columns.
    """

    relation: str
    arguments: tuple[Term, ...]
    columns: tuple[str, ...]
    kind: ScanKind
    version: Version = Version.FULL

    @property
    def variables(self) -> tuple[str, ...]:
        """The named variables, in order of first appearance."""
        return tuple(
            dict.fromkeys(
                a.name for a in self.arguments if isinstance(a, Variable) and not a.is_anonymous
            )
        )


@dataclass(frozen=True, slots=True)
class Join:
    """The natural join of two inputs."""

    left: Operator
    right: Operator

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
        """Those of the left."""
        return self.left.variables


@dataclass(frozen=True, slots=True)
class Select:
    """The rows for which every comparison holds."""

    input: Operator
    conditions: tuple[Comparison, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        """Those of the input."""
        return self.input.variables


@dataclass(frozen=True, slots=True)
class Extend:
    """The input with one more variable."""

    input: Operator
    variable: str
    expression: Expression

    @property
    def variables(self) -> tuple[str, ...]:
        """Those of the input, then the new one."""
        return (*self.input.variables, self.variable)


@dataclass(frozen=True, slots=True)
class Prune:
    """The input without the variables that nobody above reads."""

    input: Operator
    keep: tuple[str, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        """What is kept."""
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
class Cut:
    """The first `limit` distinct rows of a projection in the order of (column, descending).

    Ties are broken by the columns themselves, from the left, ascending, so that every engine
    cuts at the same place. Columns past `width` are only there to sort by and are dropped.
    """

    input: Project
    order: tuple[tuple[int, bool], ...]
    limit: int | None
    width: int

    @property
    def variables(self) -> tuple[str, ...]:
        """As for a projection."""
        return ()


Operator: TypeAlias = Unit | Scan | Join | AntiJoin | Select | Extend | Prune | Project | Cut
