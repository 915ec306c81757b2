"""Relations as temporary views of a SparkSession, under their names.

    db.add("arc", arcs)
    db.run("tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B). query tc(A, B).")
    db.spark.sql("select arc.A, count(*) from arc join tc on arc.B = tc.A group by arc.A")

Data that was added has a view, and so has every derived relation that was asked for: by a goal, or
as `out["tc"]`. A view shows what its relation is: data as it is now, a derived relation as the last
run derived it. A view reads what the result reads, and evaluates nothing.

`cal.connect(spark, views=True)` has them in the user's own session, too. There a view or a table
that is not ours stays: a warning says that the relation has no view. All go when the session is
closed; frames that were made of them can still be read.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from caladan.program.diagnostics import CaladanError
from caladan.session.result import CaladanWarning, Relation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Views:
    """The views of a Caladan session in a SparkSession."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self._made: dict[str, DataFrame] = {}
        self._warned: set[str] = set()

    def put(self, name: str, relation: Relation) -> None:
        """Create or replace the view of a relation, unless the name belongs to another view."""
        from pyspark.errors import PySparkException

        if not relation.columns:  # Spark has no view without columns
            return
        try:
            if not self._is_free(name):
                self._warn(name, "a view or table that is not Caladan's has its name")
                return
            frame = relation.spark(self.session)
            frame.createOrReplaceTempView(_quote(name))
        except CaladanError as problem:
            self._warn(name, problem.diagnostics[0].message)
        except PySparkException as problem:
            self._warn(name, str(problem).splitlines()[0])
        else:
            self._made[name] = frame

    def drop(self, name: str) -> None:
        """Drop a view that this session created."""
        if name in self._made and self._is_ours(name):
            self.session.catalog.dropTempView(name)
        self._made.pop(name, None)

    def close(self) -> None:
        """Drop all of them; a session that has ended has taken them along."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        for name in list(self._made):
            try:
                self.drop(name)
            except (PySparkException, Py4JError, OSError, AttributeError):
                return

    def _is_free(self, name: str) -> bool:
        if name in self._made and self._is_ours(name):
            return True
        return not self.session.catalog.tableExists(_quote(name))

    def _is_ours(self, name: str) -> bool:
        """True if the view of that name is still the one created here."""
        from pyspark.errors import PySparkException

        try:
            found: Any = self.session.table(_quote(name))
            return bool(found.sameSemantics(self._made[name]))
        except PySparkException:  # it was dropped
            return False

    def _warn(self, name: str, reason: str) -> None:
        """Warn once why a relation has no view."""
        if name not in self._warned:
            self._warned.add(name)
            text = f"`{name}` has no temporary view: {reason}"
            warnings.warn(text, CaladanWarning, stacklevel=2)


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
