"""What a clique knows of a relation with `msum` or `mcount` among its aggregates.

Every value a rule contributes has a place, known by its contributor's key; a `ContributorFrames` is
the table of one kind of contributor. A round puts what was derived into the places and adds up each
group again, so that doubles do not gather rounding errors; groups whose values changed are new.
Tables are rewritten every round, which costs a pass over them: totals are few, contributors may be
many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

from caladan.analysis.core import CoreRule, RelationInfo
from caladan.engines.spark.columns.aggregates import Bag, best, total
from caladan.engines.spark.columns.types import inside
from caladan.engines.spark.frame.groups import BORN
from caladan.engines.spark.frame.log import FRESH
from caladan.engines.spark.session.workspace import FrameRows, FrameRun, Workspace, union
from caladan.rules.body import Version
from caladan.rules.program import Contributors

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_VALUE: Final = "value"


class ContributorFrames:
    """What the contributors of one kind hold: by group and key, one value each.

    With `latest`, a value derived again takes the old one's place; else the largest stays. The
    first `width` columns of a key are the contributor, others tell its solutions apart.
    """

    def __init__(
        self, workspace: Workspace, group: list[str], width: int, stop: int, *, latest: bool
    ) -> None:
        self._workspace = workspace
        self._contributor = [*group, *(f"p{j}" for j in range(width))]
        self._by = [*group, *(f"p{j}" for j in range(stop))]
        self._latest = latest
        self.held: FrameRun | None = None

    def contributed(self) -> DataFrame | None:
        """The values of contributors, some of them several times."""
        if self.held is None:
            return None
        return self.held.frame.select(*self._contributor, _VALUE)

    def best(self, frame: DataFrame) -> DataFrame:
        """The largest value of each contributor."""
        return frame.groupBy(*self._contributor).agg(sf.max(_VALUE).alias(_VALUE))

    def put(self, derived: Sequence[DataFrame]) -> None:
        """Put values, with their group and key, into their places."""
        names = [*self._by, _VALUE]
        new = union([frame.select(*names) for frame in derived]).select(*names, _no("o", derived))
        pool = new.withColumnRenamed(_VALUE, "n").select(*self._by, "n", "o")
        before = self.held
        if before is not None:
            pool = before.frame.select(
                *self._by, _no("n", derived), sf.col(_VALUE).alias("o")
            ).union(pool)
        if self._workspace.partitions == 1:
            pool = pool.coalesce(1)
        best_new, best_old = sf.max("n"), sf.max("o")
        choose = sf.coalesce if self._latest else sf.greatest
        value = choose(best_new, best_old)
        made = pool.groupBy(*self._by).agg(value.alias(_VALUE))
        self.held = self._workspace.materialise(made, many=self._workspace.partitions > 1)
        self._workspace.release(before)


@dataclass(frozen=True, slots=True)
class _Tables:
    """The tables of one kind of contributor to a column: several where solutions have their own."""

    column: int
    has_solutions: bool
    of: dict[str, ContributorFrames] = field(default_factory=dict[str, ContributorFrames])

    def contributed(self) -> list[DataFrame]:
        """One value for each contributor."""
        places = list(self.of.values())
        frames = [frame for each in places if (frame := each.contributed()) is not None]
        if not frames:
            return []
        return [places[0].best(union(frames)) if self.has_solutions else frames[0]]


class SummedFacts:
    """The values of each group: new and all."""

    def __init__(self, workspace: Workspace, info: RelationInfo, rule: CoreRule | None) -> None:
        self._workspace = workspace
        self.info = info
        self._rule = rule
        self.names = [f"c{i}" for i in range(info.arity)]
        self._group = [f"c{i}" for i in info.group]
        self._totals = [i for i, f in enumerate(info.aggregates) if f and f.is_total]
        self._bests = {i: f for i, f in enumerate(info.aggregates) if f and not f.is_total}
        self._places: dict[str, _Tables] = {}
        self._table: FrameRun | None = None
        self._is_new = False
        self.new = 0
        self.count = 0

    def read(self, version: Version) -> FrameRows:
        """The facts of a version; a delta has the groups that changed."""
        table = self._table
        assert table is not None, "there are no facts"
        rows = table.rows
        if version is Version.DELTA:
            return FrameRows(rows.frame.where(sf.col(FRESH)), self.new, rows.lone)
        return rows

    def advance(self, bags: Sequence[tuple[CoreRule | None, Bag]]) -> int:
        """Take what a round derived; how many groups changed."""
        before, is_first = self._table, self._table is None
        self.new = 0
        if not bags and not (is_first and not self._group):
            return 0
        self._contribute(bags)
        changed, many = self._changed([bag for _, bag in bags]), self._workspace.partitions > 1
        run = self._workspace.materialise(changed, (FRESH, BORN), many=many)
        self.new, born = run.counted
        self.count += born
        self._workspace.release(before)
        self._table = run
        return self.new

    def spread(self) -> None:
        """Nothing to do: every round spreads the tables anew."""

    def finished(self) -> tuple[DataFrame, tuple[FrameRun, ...]]:
        """All facts, and the run that holds them."""
        table = self._table
        assert table is not None, "there are no facts"
        for tables in self._places.values():
            for places in tables.of.values():
                self._workspace.release(places.held)
        return table.frame.select(*self.names), (table,)

    def _contribute(self, bags: Sequence[tuple[CoreRule | None, Bag]]) -> None:
        """Put what was derived into places, summed column by summed column."""
        derived: dict[tuple[str, str], tuple[ContributorFrames, list[DataFrame]]] = {}
        for column in self._totals:
            for rule, bag in bags:
                place, frame = self._placed(column, rule, bag)
                new = _Tables(column, place.solutions is not None)
                tables = self._places.setdefault(place.place, new).of
                name = place.solutions or place.place
                places = tables.setdefault(name, self._table_of(place))
                derived.setdefault((place.place, name), (places, []))[1].append(frame)
        for places, frames in derived.values():
            places.put(frames)

    def _table_of(self, place: Contributors) -> ContributorFrames:
        stop = place.stop - place.start
        return ContributorFrames(
            self._workspace, self._group, place.width, stop, latest=place.latest
        )

    def _placed(
        self, column: int, rule: CoreRule | None, bag: Bag
    ) -> tuple[Contributors, DataFrame]:
        """Where a bag's values go, and the values with their keys."""
        use = next((each for each in bag.contributors if each.column == column), None)
        if use is not None and rule is not None:
            value = sf.col(f"c{column}").alias(_VALUE)
            keys = [
                sf.col(f"k{j}").alias(f"p{n}") for n, j in enumerate(range(use.start, use.stop))
            ]
            return use, bag.frame.select(*self._group, *keys, value)
        # Given once: all that a source gives a group is one contribution.
        name = "data" if rule is None else f"plain {rule.number}"
        summed = total(sf.col(f"c{column}"), self.info.types[column], self._rule)
        frame = bag.frame.groupBy(*self._group).agg(
            summed.alias(_VALUE), sf.count(sf.lit(1)).alias("rows")
        )
        if not self._group:
            frame = frame.where(sf.col("rows") > 0)
        place = Contributors(column, f"{column}: {name}", 0, 0, 0, None, latest=False)
        return place, frame.select(*self._group, _VALUE)

    def _changed(self, bags: Sequence[Bag]) -> DataFrame:
        """All groups with their values, and whether they changed."""
        parts = [
            frame.select(*self._group, *self._only({tables.column: sf.col(_VALUE)}))
            for tables in self._places.values()
            for frame in tables.contributed()
        ]
        if self._bests:
            found = {i: sf.col(f"c{i}") for i in self._bests}
            parts += [bag.frame.select(*self._group, *self._only(found)) for bag in bags]
        if self._table is not None:
            known = {i: sf.col(f"c{i}") for i in self._bests}
            parts.append(self._table.frame.select(*self._group, *self._only(known, old=True)))
        if not parts:
            nothing = self._workspace.session.range(0, 0, 1, 1)
            parts.append(nothing.select(*self._only({})))
        pool = union(parts)
        if self._workspace.partitions == 1:
            pool = pool.coalesce(1)
        types = self.info.types
        made = [total(sf.col(f"n{i}"), types[i], self._rule).alias(f"c{i}") for i in self._totals]
        made += [
            best(row, sf.col(f"n{i}"), types[i]).alias(f"c{i}") for i, row in self._bests.items()
        ]
        values = [*self._totals, *self._bests]
        merged = pool.groupBy(*self._group).agg(
            *made, *(sf.max(f"o{i}").alias(f"o{i}") for i in values), sf.max("held").alias("held")
        )
        if not self._group and self._bests:
            merged = merged.where(sf.col(f"c{self._bests[0]}").isNotNull())
        differs = reduce(lambda a, b: a | b, (sf.col(f"c{i}") != sf.col(f"o{i}") for i in values))
        born = sf.col("held").isNull()
        return merged.select(
            *self.names, sf.coalesce(born | differs, sf.lit(True)).alias(FRESH), born.alias(BORN)
        )

    def _only(self, found: dict[int, Column], *, old: bool = False) -> list[Column]:
        """Columns n…, o… and held of a part: what it gives, and nulls for the rest."""
        values = [*self._totals, *self._bests]
        none = sf.lit(None)
        given = [(found.get(i, none)).cast(self._type(i)).alias(f"n{i}") for i in values]
        known = [
            (sf.col(f"c{i}") if old else none).cast(self._type(i)).alias(f"o{i}") for i in values
        ]
        held = sf.lit(True) if old else none.cast("boolean")
        return [*given, *known, held.alias("held")]

    def _type(self, i: int) -> str:
        return inside(self.info.types[i]).simpleString()


def _no(name: str, frames: Sequence[DataFrame]) -> Column:
    """A column of nulls of the type that the values of frames have."""
    return sf.lit(None).cast(frames[0].schema[_VALUE].dataType).alias(name)
