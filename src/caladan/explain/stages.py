"""The stages to show, and the text of each."""

from __future__ import annotations

from collections.abc import Sequence

from caladan.errors import did_you_mean, error
from caladan.explain.delta import delta
from caladan.explain.logical import logical, optimized
from caladan.explain.operators import operators
from caladan.explain.pcg import pcg
from caladan.explain.plan import plan
from caladan.explain.relations import relations
from caladan.explain.rules import rules
from caladan.explain.setting import Setting
from caladan.explain.spark import spark
from caladan.pipeline import STAGES, Compiled, Stage


def chosen(name: str) -> Sequence[Stage]:
    """The stages of a name, or all of them; C050 if there is none."""
    found = [s for s in STAGES if name in (s.name, "all")]
    if not found:
        names = ("all", *(s.name for s in STAGES))
        raise error(
            "C050",
            f"there is no stage `{name}`",
            help=did_you_mean(name, names) or f"the stages are {', '.join(names)}",
        )
    return found


def bodies(
    compiled: Compiled, stages: Sequence[Stage], setting: Setting, *, by_column: bool = False
) -> list[tuple[Stage, str]]:
    """Each stage with its text; `by_column` for rules that were made of SQL."""
    show = {
        "relations": lambda: relations(compiled),
        "rules": lambda: rules(compiled),
        "pcg": lambda: pcg(compiled),
        "operators": lambda: operators(compiled),
        "delta": lambda: delta(compiled),
        "logical": lambda: logical(compiled, by_column=by_column),
        "optimized": lambda: optimized(compiled, by_column=by_column),
        "plan": lambda: plan(compiled, setting, by_column=by_column),
        "spark": lambda: spark(setting.spark_plans),
    }
    return [(stage, show[stage.name]()) for stage in stages]
