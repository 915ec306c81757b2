"""Strategy *frame* does what its plan prints: hints are followed, partitions are counted."""

import re
from typing import Any
from unittest.mock import patch

from pyspark.sql import DataFrame, SparkSession

import caladan
from caladan.engines.spark.session.internals import plan_text
from caladan.engines.spark.session.workspace import FrameRun, Workspace

CLOSURE = """database({arc(A: integer, B: integer)}).
tc(A, B) <- arc(A, B).
tc(A, B) <- tc(A, C), arc(C, B).
query tc(A, B)."""
CHAIN = [(i, i + 1) for i in range(4)]
OTHERS = [(100 + 2 * i, 101 + 2 * i) for i in range(50)]


def test_a_closure_runs_as_its_plan_is_printed(spark: SparkSession) -> None:
    plans: list[str] = []
    known = Workspace.materialise

    def seen(self: Workspace, frame: DataFrame, *rest: Any, **named: Any) -> FrameRun:
        plans.append(plan_text(frame).split("== Physical Plan ==")[1])
        return known(self, frame, *rest, **named)

    with caladan.connect(spark) as db:
        db.add("arc", CHAIN + OTHERS)
        printed = db.explain(CLOSURE, "plan", strategy="frame", partitions=3)
        with patch.object(Workspace, "materialise", seen):
            out = db.run(CLOSURE, strategy="frame", partitions=3)
        assert out["tc"].count() == 10 + len(OTHERS)
    assert "ExitExchange tc, hashpartitioning(A#0, 3)" in printed
    assert "RecExchange tc, false, hashpartitioning(A#2, 3)" in printed
    assert "BroadcastHashJoin [C#3], [A#0], Inner, BuildRight" in printed
    rounds = [plan for plan in plans if "BroadcastHashJoin" in plan]
    assert len(rounds) >= 3
    for plan in rounds:
        # New facts are fewer than arcs; without a hint they would be sent round.
        joins = re.findall(r"BroadcastHashJoin .*(Build\w+)", plan)
        assert joins == ["BuildRight"]
    parts = {part for plan in plans for part in re.findall(r"hashpartitioning\(.*, (\d+)\)", plan)}
    assert parts == {"3"}
