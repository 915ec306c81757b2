"""Strategy *cubed*: a task for each cell, no exchange.

A clique that is not recursive, with a cyclic body, is solved in cells: every task has all inputs,
keeps the facts that agree with its cell (cells.py), and finds the solutions among them. What cells
derive is put together (merged.py) unless it is known to be different in every cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import cast

from caladan.analysis.core import RelationInfo
from caladan.delta.program import DeltaProgram, DeltaRule
from caladan.engines.interface import Stopped, Table
from caladan.engines.spark.choice import SHIPPED, scans, why_not_cubed
from caladan.engines.spark.cube.merged import merged
from caladan.engines.spark.cube.shares import Shares, product, shares
from caladan.engines.spark.strategies import CannotServe, Context
from caladan.engines.spark.table import SparkTable
from caladan.engines.spark.tasks import job
from caladan.engines.spark.tasks.together import in_parts
from caladan.engines.spark.tasks.work import Outcome
from caladan.errors import CaladanError
from caladan.program import Variable


def cubed(
    program: DeltaProgram, store: Mapping[str, SparkTable], context: Context
) -> dict[str, SparkTable]:
    """Evaluate the one clique of a program in cells."""
    (clique,) = program.cliques
    reason = why_not_cubed(clique, program.relations)
    info = program.relations[clique.relations[0]]
    sizes = {name: table.count() for name, table in store.items()}
    if reason is None and sum(sizes.values()) > SHIPPED:
        reason = f"more than {SHIPPED:,} facts go in"
    if reason is not None:
        raise CannotServe(reason)
    for name, rows in program.facts.items():
        sizes[name] = sizes.get(name, 0) + len(rows)
    cut = tuple(_cut(rule, sizes, context.parts) for rule in clique.exit_rules)
    cells = max(product(each, each) for each in cut)
    apart = cells == 1 or _is_apart(program, info, clique.exit_rules, cut)
    work = replace(job.work_on(program, store, context, cells), cut=cut)
    if not apart:  # what has to be put together is needed in any case
        work = replace(work, keeping=replace(work.keeping, rate=inf))

    def put_together(found: Mapping[str, Table]) -> dict[str, SparkTable]:
        rules = [rule.rule for rule in clique.exit_rules]
        table = cast("SparkTable", found[info.name])
        return {info.name: merged(table, info, rules, context.workspace)}

    def finish(outcomes: Sequence[Outcome]) -> dict[str, SparkTable]:
        try:
            found = job.tables(work, outcomes, context)
        except Stopped as stopped:
            if apart:
                raise
            if info.has_aggregates:  # what is missing would change what there is
                stopped.store[info.name].close()
                raise Stopped(stopped.diagnostics[0], {}) from None
            raise Stopped(stopped.diagnostics[0], put_together(stopped.store)) from None
        except CaladanError as problem:
            if problem.diagnostics[0].code == "C041" and not apart:
                # What is too much in one cell may be evened out by another.
                raise CannotServe("a sum of a cell leaves 64 bits") from None
            raise
        return found if apart else put_together(found)

    return in_parts("cubed", work, context, finish, apart=apart)


def _cut(rule: DeltaRule, sizes: Mapping[str, int], cells: int) -> Shares:
    return shares([(scan.variables, sizes[scan.relation]) for scan in scans(rule.plan)], cells)


def _is_apart(
    program: DeltaProgram, info: RelationInfo, rules: Sequence[DeltaRule], cut: Sequence[Shares]
) -> bool:
    """Whether no fact, and no group of an aggregate, is derived in two cells.

    The cell of a solution is that of its facts: where these can be told from what is derived, the
    cell can.
    """
    if len(rules) > 1 or info.takes_data or program.facts.get(info.name):
        return False
    ((rule,), (shares,)) = rules, cut
    head = {each.name for each in rule.rule.arguments if isinstance(each, Variable)}
    decide = [each.variables for each in scans(rule.plan) if product(each.variables, shares) > 1]
    return all(head.issuperset(variables) for variables in decide)
