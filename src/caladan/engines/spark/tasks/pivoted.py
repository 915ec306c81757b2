"""Strategy *pivoted*: a task for each part of the pivot's values, no exchange.

A clique that hands one column on unchanged falls into independent parts. Every task has all inputs,
evaluates the facts that fall to it (parts.py), and never asks another. One job, whatever the number
of rounds.
"""

from __future__ import annotations

from collections.abc import Mapping

from caladan.delta.program import DeltaProgram
from caladan.engines.spark.choice import why_not_pivoted
from caladan.engines.spark.strategies import CannotServe, Context
from caladan.engines.spark.table import SparkTable
from caladan.engines.spark.tasks import job
from caladan.engines.spark.tasks.together import in_parts


def pivoted(
    program: DeltaProgram, store: Mapping[str, SparkTable], context: Context
) -> dict[str, SparkTable]:
    """Evaluate the one clique of a program in parts."""
    (clique,) = program.cliques
    reason = why_not_pivoted(clique)
    if reason is not None:
        raise CannotServe(reason)
    work = job.work_on(program, store, context, context.parts)
    return in_parts(
        "pivoted", work, context, lambda outcomes: job.tables(work, outcomes, context), apart=True
    )
