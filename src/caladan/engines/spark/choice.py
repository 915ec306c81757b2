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
from caladan.program import Aggregate, Constant, Expression, Variable

SMALL_INPUTS: Final = 2_000_000
"""Facts in all inputs together up to which one task evaluates a program by itself."""

FEW_TASKS: Final = 8
ENOUGH_FOR_ONE: Final = 20_000_000
"""Facts up to which one task is done sooner than a few that have to exchange what they derive."""

SHIPPED: Final = 50_000_000
"""Facts up to which every task may have all inputs, to take from them what it needs."""

NO_TASKS: Final = "Spark Connect runs no tasks of ours"
"""Why only *frame* serves there."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A strategy, and what speaks for it."""

    strategy: str
    reason: str


def choices(
    clique: DeltaClique, facts: int | None, forced: str | None = None, tasks: int | None = None
) -> list[Choice]:
    """The strategies for a clique whose inputs have so many facts, the best first.

    `tasks` is how many run at the same time. Where a number is not known yet, it is taken to be
    large.
    """
    found: list[Choice] = []
    if forced is not None:
        found.append(Choice(forced, "as asked for"))
    if facts is not None and facts <= SMALL_INPUTS:
        found.append(Choice("single", f"at most {SMALL_INPUTS:,} facts go in"))
    elif (facts is None or facts <= SHIPPED) and why_not_cubed(clique) is None:
        found.append(Choice("cubed", "a rule has a cyclic body"))
    if clique.is_recursive:
        obstacle = why_not_pivoted(clique)
        if obstacle is None:
            found.append(Choice("pivoted", "every recursive rule carries the same column"))
        elif _is_enough_for_one(facts, tasks):
            found.append(Choice("single", f"at most {FEW_TASKS} tasks would exchange facts"))
        found.append(Choice("meshed", str(obstacle)))
    found.append(Choice("frame", "serves everything" if clique.is_recursive else "not recursive"))
    first = {choice.strategy: i for i, choice in reversed(list(enumerate(found)))}
    return [found[i] for i in sorted(first.values())]


def _is_enough_for_one(facts: int | None, tasks: int | None) -> bool:
    if facts is None or tasks is None:
        return False
    return facts <= ENOUGH_FOR_ONE and tasks <= FEW_TASKS


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


def why_not_cubed(clique: DeltaClique) -> str | None:
    """Why a clique cannot be solved in cells, or need not be; None if it should."""
    if clique.is_recursive:
        return "what is recursive is not solved in one go"
    for rule in clique.exit_rules:
        if isinstance(rule.plan, Cut):
            return f"rule {rule.rule.number} sorts or limits all that it derives"
        if rule.contributors or any(_averages(argument) for argument in rule.rule.arguments):
            return f"what rule {rule.rule.number} aggregates in one cell says nothing of all cells"
    if not any(_is_cyclic(rule) for rule in clique.exit_rules):
        return "no rule has a cyclic body"
    return None


def _averages(argument: Expression) -> bool:
    return isinstance(argument, Aggregate) and argument.function == "avg"


def _is_cyclic(rule: DeltaRule) -> bool:
    atoms = [scan.variables for scan in scans(rule.plan)]
    if len(atoms) < 3:
        return False
    from caladan.search.acyclic import is_cyclic

    return is_cyclic(atoms)


def origin(rule: DeltaRule, pivot: Mapping[str, int]) -> tuple[Scan, int] | None:
    """The scan, and the column of it, that an exit rule takes its pivot from."""
    wanted = rule.rule.arguments[pivot[rule.rule.head]]
    if isinstance(wanted, Variable):
        for scan in scans(rule.plan):
            for column, argument in enumerate(scan.arguments):
                if argument == wanted:
                    return scan, column
    return None


def scans(node: Operator) -> Iterator[Scan]:
    """What a plan reads, without what it only negates."""
    match node:
        case Unit():
            return
        case Scan():
            yield node
        case Join():
            yield from scans(node.left)
            yield from scans(node.right)
        case AntiJoin():
            yield from scans(node.left)
        case _:
            yield from scans(node.input)
