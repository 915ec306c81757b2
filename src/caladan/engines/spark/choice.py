"""Which strategy evaluates a clique, and why. Pure: explain reads this without Spark.

Strategies are tried in the order of `choices`; one that cannot serve says why, and the next has its
turn. *frame* serves everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from caladan.delta.program import DeltaClique, DeltaRule
from caladan.operators.tree import AntiJoin, Cut, Join, Operator, Scan, Unit
from caladan.program import Constant, Variable

STRATEGIES: Final = ("single", "pivoted", "meshed", "frame")

SMALL_INPUTS: Final = 2_000_000
"""Facts in all inputs together up to which one task evaluates a program by itself."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A strategy, and what speaks for it."""

    strategy: str
    reason: str


def choices(clique: DeltaClique, facts: int | None, forced: str | None = None) -> list[Choice]:
    """The strategies for a clique whose inputs have so many facts, the best first.

    Where the number is not known yet, inputs are taken to be large.
    """
    found: list[Choice] = []
    if forced is not None:
        found.append(Choice(forced, "as asked for"))
    if facts is not None and facts <= SMALL_INPUTS:
        found.append(Choice("single", f"at most {SMALL_INPUTS:,} facts go in"))
    if clique.is_recursive:
        obstacle = why_not_pivoted(clique)
        if obstacle is None:
            found.append(Choice("pivoted", "every recursive rule carries the same column"))
        found.append(Choice("meshed", str(obstacle)))
    found.append(Choice("frame", "serves everything" if clique.is_recursive else "not recursive"))
    first = {choice.strategy: i for i, choice in reversed(list(enumerate(found)))}
    return [found[i] for i in sorted(first.values())]


def why_not_pivoted(clique: DeltaClique) -> str | None:
    """Why a clique cannot be evaluated in independent parts; None if it can."""
    if clique.pivot is None:
        return "no column is carried unchanged through every recursive rule"
    for rule in clique.exit_rules:
        if isinstance(rule.plan, Cut):
            return f"rule {rule.rule.number} sorts or limits all that it derives"
        given = rule.rule.arguments[clique.pivot[rule.rule.head]]
        if not isinstance(given, Constant) and origin(rule, clique.pivot) is None:
            return f"rule {rule.rule.number} computes the column that would tell parts apart"
    return None


def origin(rule: DeltaRule, pivot: Mapping[str, int]) -> tuple[Scan, int] | None:
    """The scan, and the column of it, that an exit rule takes its pivot from."""
    wanted = rule.rule.arguments[pivot[rule.rule.head]]
    if isinstance(wanted, Variable):
        for scan in _scans(rule.plan):
            for column, argument in enumerate(scan.arguments):
                if argument == wanted:
                    return scan, column
    return None


def _scans(node: Operator) -> Iterator[Scan]:
    """What a plan reads, without what it only negates."""
    match node:
        case Unit():
            return
        case Scan():
            yield node
        case Join():
            yield from _scans(node.left)
            yield from _scans(node.right)
        case AntiJoin():
            yield from _scans(node.left)
        case _:
            yield from _scans(node.input)
