"""What a plan is for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from caladan.engines.interface import Table
from caladan.program.options import Options


@dataclass(frozen=True)
class Setting:
    """An engine, how many tasks it runs at once, and the data it would run over.

    What is None is not known: then what depends on it is shown with its alternatives. `options`
    are those of the run; `spark_plans` are Spark's own plans, as pairs of a title and a text.
    """

    engine: str = "spark"
    tasks: int | None = None
    data: Mapping[str, Table] | None = None
    options: Options = field(default_factory=Options)
    spark_plans: Sequence[tuple[str, str]] | None = None

    @cached_property
    def sizes(self) -> Mapping[str, int] | None:
        """How many facts each relation of the data has."""
        if self.data is None:
            return None
        return {name: table.count() for name, table in self.data.items()}
