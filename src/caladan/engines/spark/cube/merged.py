"""What cells derived of a relation, as one: facts once, groups of an aggregate combined.

Few facts are merged here, by Arrow; many by Spark, which then holds the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import pyarrow as pa

from caladan.analysis.core import CoreRule, RelationInfo
from caladan.engines.spark.aggregates import SMALLEST, TOTALS, Bag, blamed, combined
from caladan.engines.spark.runs import Workspace
from caladan.engines.spark.strategies import CannotServe
from caladan.engines.spark.table import SparkTable, distinct, held

_WIDE: Final = pa.decimal128(38)


def merged(
    table: SparkTable, info: RelationInfo, rules: Sequence[CoreRule], workspace: Workspace
) -> SparkTable:
    """A table of what all cells derived by some rules; the given one is closed."""
    data = table.data
    if data is not None and not info.has_aggregates:
        return held(info.columns, distinct(data), workspace)
    if data is not None and _is_whole(info):
        return held(info.columns, _combined(data, info), workspace)
    frame = table.frame
    if info.has_aggregates:
        frame = combined(info, [Bag(frame)], blamed(info, rules))
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


def _combined(data: pa.Table, info: RelationInfo) -> pa.Table:
    # Positions for names: users' may be equal, and Arrow wants to tell them apart.
    places = [str(i) for i in range(info.arity)]
    table: Any = cast("Any", data).rename_columns(places)
    wanted: list[tuple[str, str]] = []
    for place, function in zip(places, info.aggregates, strict=True):
        if function in TOTALS:
            # Arrow adds up 64 bits without saying when they are too few.
            table = table.set_column(int(place), place, table.column(place).cast(_WIDE))
            wanted.append((place, "sum"))
        elif function is not None:
            wanted.append((place, "min" if function in SMALLEST else "max"))
    group = [str(i) for i in info.group]
    grouped = table.group_by(group, use_threads=False).aggregate(wanted)
    made = {**{p: p for p in group}, **{place: f"{place}_{how}" for place, how in wanted}}
    chosen = grouped.select([made[place] for place in places]).rename_columns(data.column_names)
    try:
        return chosen.cast(data.schema)
    except pa.ArrowInvalid:
        raise CannotServe("a sum leaves 64 bits") from None
