"""Stage `spark` of explain: what Spark would be handed, and what it makes of every frame.

Where a strategy hands it tasks of ours, that is all it gets to see, and it has no plan of them.
Nothing is evaluated: relations that are derived are stood in for by empty ones, of which Spark
does not know that they are empty. Data is read as in a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from pyspark.sql import functions as sf

from caladan.analysis.core import RelationInfo
from caladan.engines.spark.choice import Outlook, is_one_task
from caladan.engines.spark.columns.physical import names, shown
from caladan.engines.spark.columns.types import OUTSIDE, schema
from caladan.engines.spark.cube.spread import ask
from caladan.engines.spark.frame.operators import ReadRelation, compile_rule
from caladan.engines.spark.session.connect import is_connect
from caladan.engines.spark.session.internals import plan_text
from caladan.engines.spark.session.session import create_frame
from caladan.engines.spark.session.workspace import FrameRows, Workspace
from caladan.engines.spark.sources.table import SparkTable
from caladan.rules.body import Version
from caladan.rules.program import DeltaClique, DeltaProgram, DeltaRule

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def plans(
    program: DeltaProgram,
    store: Mapping[str, SparkTable],
    workspace: Workspace,
    seen: Sequence[Outlook],
) -> list[tuple[str, str]]:
    """For every clique a title and what Spark is handed, by the strategies it may have.

    In strategy *frame* these are its plans for every rule: exit rules, then delta rules' first
    round.
    """
    workspace.spread(workspace.parallelism)
    read = _reader(program, store, workspace)
    found: list[tuple[str, str]] = []
    if is_one_task(seen):
        names = ", ".join(name for each in seen for name in each.clique.relations)
        return [(f"{names}: strategy single, {seen[0].large.reason}", _HANDED["single"])]
    for each in seen:
        options = each.options[:1] if each.is_decided else each.options
        for choice in options:
            if choice.strategy != "frame":
                names = ", ".join(each.clique.relations)
                title = f"{names}: strategy {choice.strategy}, {choice.reason}"
                text = _HANDED[choice.strategy].format(tasks=workspace.parallelism)
                found.append((title, text))
        if any(choice.strategy == "frame" for choice in options):
            ask((rule for _, rule in _rules(each.clique)), workspace)
            for title, rule in _rules(each.clique):
                frame = compile_rule(rule, program.relations)(read)
                found.append((f"{title}, strategy frame", _explain(frame)))
    return found


_NO_PLAN: Final = "It is handed no frame of these rules, and has no plan of its own."
_HANDED: Final = {
    "single": f"Spark is handed one task, in which the embedded engine evaluates this.\n{_NO_PLAN}",
    "cubed": f"Spark is handed up to {{tasks}} tasks, one for each cell.\n{_NO_PLAN}",
    "pivoted": f"Spark is handed {{tasks}} tasks, one for each part.\n{_NO_PLAN}",
    "meshed": f"Spark is handed {{tasks}} tasks, which exchange what is new.\n{_NO_PLAN}",
}


def _explain(frame: DataFrame) -> str:
    """The parsed, analysed, optimised and physical plans of a frame."""
    if is_connect(frame):
        return str(cast("Any", frame)._explain_string(extended=True)).strip()
    return plan_text(frame)


def _unknown(info: RelationInfo, workspace: Workspace) -> DataFrame:
    """A frame without rows, of which Spark does not know that there are none."""
    session, parts = workspace.session, workspace.parallelism
    if is_connect(session):
        rows = session.range(0, 1, 1, parts).where(sf.rand() < 0)
        pairs = zip(names(info.columns), shown(info.columns), strict=True)
        text = sf.col("id").cast("string")
        return rows.select(*(text.cast(OUTSIDE[type]).alias(name) for name, type in pairs))
    empty = session.sparkContext.parallelize(cast("list[Any]", []), parts)
    return create_frame(session, empty, schema(info.columns))


def _rules(clique: DeltaClique) -> Iterator[tuple[str, DeltaRule]]:
    for rule in clique.exit_rules:
        what = "exit rule" if clique.is_recursive else "rule"
        yield f"{rule.rule.head}: {what} {rule.rule.number}", rule
    for rule in clique.delta_rules:
        assert rule.seed is not None
        seed = rule.rule.atoms[rule.seed].relation
        yield f"{rule.rule.head}: rule {rule.rule.number}, seeded by δ{seed}", rule


def _reader(
    program: DeltaProgram, store: Mapping[str, SparkTable], workspace: Workspace
) -> ReadRelation:
    def read(name: str | None, version: Version) -> FrameRows:
        if name is None:
            return FrameRows(workspace.one_row(), 1, lone=True)
        info = program.relations[name]
        if version is Version.FULL and info.takes_data and not info.is_derived:
            return store[name].rows
        return FrameRows(_unknown(info, workspace), None, lone=False)

    return read
