"""Strategy *cubed*: a task for each cell, one exchange.

A clique that is not recursive, with a cyclic body, is solved in cells: every task is sent the facts
that agree with its cell (tasks/cells.py), and finds the solutions among them. What cells derive is
put together (`merge_cells`) unless it is known to be different in every cell.

What cells derived of a relation, as one: facts once, groups of an aggregate combined.

Few facts are merged here, by Arrow; many by Spark, which then holds the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any, Final, cast

import pyarrow as pa

from caladan.analysis.core import CoreRule, RelationInfo
from caladan.engines.interface import EngineStopped, Table
from caladan.engines.spark.choice import SHIPPED, Shares, product, shares
from caladan.engines.spark.columns.aggregates import Bag, combine, find_rule_to_blame
from caladan.engines.spark.session.workspace import Workspace
from caladan.engines.spark.sources.table import SparkTable, distinct, held
from caladan.engines.spark.strategy import CannotServe, Context
from caladan.engines.spark.tasks import job
from caladan.engines.spark.tasks.cells import ByCell, sampled_columns
from caladan.engines.spark.tasks.exchange import SAMPLED
from caladan.engines.spark.tasks.strategies import in_parts
from caladan.program import Variable
from caladan.program.diagnostics import CaladanError
from caladan.rules.program import DeltaProgram, DeltaRule

_WIDE: Final = pa.decimal128(38)


def merge_cells(
    table: SparkTable, info: RelationInfo, rules: Sequence[CoreRule], workspace: Workspace
) -> SparkTable:
    """A table of what all cells derived by some rules; the given one is closed."""
    data = table.data
    if data is not None and not info.has_aggregates:
        return held(info.columns, distinct(data), workspace)
    if data is not None and _is_whole(info):
        return held(info.columns, _combine(data, info), workspace)
    frame = table.frame
    if info.has_aggregates:
        frame = combine(info, [Bag(frame)], find_rule_to_blame(info, rules))
    else:
        frame = frame.distinct()
    workspace.spread(workspace.parallelism)
    run = workspace.materialise(frame)
    table.close()
    workspace.keep(run)
    return SparkTable(info.columns, run.frame, [run], run.count)


def _is_whole(info: RelationInfo) -> bool:
    """Whether all values to be combined are whole numbers; of others Arrow has its own view."""
    pairs = zip(info.aggregates, info.columns, strict=True)
    return all(column.type.is_integral for function, column in pairs if function is not None)


def _combine(data: pa.Table, info: RelationInfo) -> pa.Table:
    # Positions for names: users' may be equal, and Arrow wants to tell them apart.
    places = [str(i) for i in range(info.arity)]
    table: Any = cast("Any", data).rename_columns(places)
    wanted: list[tuple[str, str]] = []
    for place, function in zip(places, info.aggregates, strict=True):
        if function is None:
            continue
        assert function.merged_by is not None, function
        if function.is_total:
            # Arrow adds up 64 bits without saying when they are too few.
            table = table.set_column(int(place), place, table.column(place).cast(_WIDE))
        wanted.append((place, function.merged_by))
    group = [str(i) for i in info.group]
    grouped = table.group_by(group, use_threads=False).aggregate(wanted)
    made = {**{p: p for p in group}, **{place: f"{place}_{how}" for place, how in wanted}}
    chosen = grouped.select([made[place] for place in places]).rename_columns(data.column_names)
    try:
        return chosen.cast(data.schema)
    except pa.ArrowInvalid:
        raise CannotServe("a sum leaves 64 bits") from None


def run_cubed(
    program: DeltaProgram, store: Mapping[str, SparkTable], context: Context
) -> dict[str, SparkTable]:
    """Evaluate the one clique of a program in cells."""
    (clique,) = program.cliques
    info = program.relations[clique.relations[0]]
    sizes = {name: table.size for name, table in store.items()}
    if sum(sizes.values()) > SHIPPED:
        raise CannotServe(f"more than {SHIPPED:,} facts go in")
    for name, rows in program.facts.items():
        sizes[name] = sizes.get(name, 0) + len(rows)
    cut = tuple(_cut(rule, sizes, context.parts) for rule in clique.exit_rules)
    cells = max(product(each, each) for each in cut)
    apart = cells == 1 or _is_apart(program, info, clique.exit_rules, cut)
    work = job.work_on(program, store, context, _by_cell(program, store, context, cut, sizes))
    if not apart:  # what has to be put together is needed in any case
        work = replace(work, keeping=replace(work.keeping, rate=inf))

    def put_together(found: Mapping[str, Table]) -> dict[str, SparkTable]:
        rules = [rule.rule for rule in clique.exit_rules]
        table = cast("SparkTable", found[info.name])
        return {info.name: merge_cells(table, info, rules, context.workspace)}

    def finish(result: job.JobResult) -> dict[str, SparkTable]:
        try:
            found = job.tables(work, result, context)
        except EngineStopped as stopped:
            if apart:
                raise
            if info.has_aggregates:  # what is missing would change what there is
                stopped.store[info.name].close()
                raise EngineStopped(stopped.diagnostics[0], {}) from None
            raise EngineStopped(stopped.diagnostics[0], put_together(stopped.store)) from None
        except CaladanError as problem:
            if problem.diagnostics[0].code == "C041" and not apart:
                # What is too much in one cell may be evened out by another.
                raise CannotServe("a sum of a cell leaves 64 bits") from None
            raise
        return found if apart else put_together(found)

    return in_parts("cubed", work, context, finish, apart=apart)


def _by_cell(
    program: DeltaProgram,
    store: Mapping[str, SparkTable],
    context: Context,
    cut: tuple[Shares, ...],
    sizes: Mapping[str, int],
) -> ByCell:
    """How facts are cut into cells; a small job before looks for heavy values where facts are."""
    columns = sampled_columns(program, cut)
    steps = {name: max(size // SAMPLED, 1) for name, size in sizes.items()}
    pieces = job.cut_pieces(store, context, {name for name, _ in columns})
    spark = context.workspace.session.sparkContext
    return ByCell.of(program, cut, job.samples_of(pieces, columns, steps, spark))


def _cut(rule: DeltaRule, sizes: Mapping[str, int], cells: int) -> Shares:
    return shares([(scan.variables, sizes[scan.relation]) for scan in rule.body.atoms], cells)


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
    decide = [each.variables for each in rule.body.atoms if product(each.variables, shares) > 1]
    return all(head.issuperset(variables) for variables in decide)
