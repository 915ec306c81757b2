"""Stage `spark` of explain: what Spark makes of every frame it would be handed.

Nothing is evaluated: relations that are derived are stood in for by empty ones, of which Spark
does not know that they are empty. Data is read as in a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from caladan.delta.program import DeltaClique, DeltaProgram, DeltaRule
from caladan.engines.spark.operators import Read, Rows, compiled
from caladan.engines.spark.runs import Workspace
from caladan.engines.spark.session import created
from caladan.engines.spark.table import SparkTable
from caladan.engines.spark.types import schema
from caladan.operators.tree import Version


def plans(
    program: DeltaProgram, store: Mapping[str, SparkTable], workspace: Workspace
) -> list[tuple[str, str]]:
    """A title and Spark's plans for every rule: exit rules, then delta rules' first round."""
    workspace.spread(workspace.parallelism)
    read = _reader(program, store, workspace)
    found: list[tuple[str, str]] = []
    for clique in program.cliques:
        for title, rule in _rules(clique):
            frame = compiled(rule, program.relations)(read)
            execution = cast("Any", frame)._jdf.queryExecution()
            found.append((title, str(execution.toString()).strip()))
    return found


def _rules(clique: DeltaClique) -> Iterator[tuple[str, DeltaRule]]:
    for rule in clique.exit_rules:
        what = "exit rule" if clique.is_recursive else "rule"
        yield f"{rule.rule.head}: {what} {rule.rule.number}", rule
    for rule in clique.delta_rules:
        assert rule.seed is not None
        seed = rule.rule.atoms[rule.seed].relation
        yield f"{rule.rule.head}: rule {rule.rule.number}, seeded by δ{seed}", rule


def _reader(program: DeltaProgram, store: Mapping[str, SparkTable], workspace: Workspace) -> Read:
    context = workspace.session.sparkContext

    def read(name: str | None, version: Version) -> Rows:
        if name is None:
            return Rows(workspace.one_row(), 1, lone=True)
        info = program.relations[name]
        if version is Version.FULL and info.takes_data and not info.is_derived:
            return store[name].rows
        # A frame of an RDD is never optimised away, though this one is empty.
        empty = context.parallelize(cast("list[Any]", []), workspace.parallelism)
        return Rows(created(workspace.session, empty, schema(info.columns)), None, lone=False)

    return read
