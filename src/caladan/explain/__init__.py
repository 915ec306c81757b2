"""Explain: every stage of a compilation as text, or all of them as one page of HTML.

    text(compiled, "pcg")    one stage; "all" for all of them
    html(compiled)           a page of its own that needs nothing from elsewhere

One file a stage, each a function from the artefacts to text; `pipeline.STAGES` names them and gives
their order. Explain reads what the rooms of the compiler handed on; none of them calls it.
"""

from __future__ import annotations

from collections.abc import Sequence

from caladan.explain.page import page
from caladan.explain.script import ScriptParts, script_html, script_text
from caladan.explain.stages import bodies, chosen
from caladan.pipeline import STAGES, Compiled

__all__ = ["ScriptParts", "html", "script_html", "script_text", "text"]


def text(
    compiled: Compiled,
    stage: str = "all",
    *,
    engine: str = "spark",
    partitions: int | None = None,
    spark_plans: Sequence[tuple[str, str]] | None = None,
) -> str:
    """A stage, or all of them, each below its heading.

    `engine` and `partitions` are what the physical plan is for; `spark_plans` are Spark's own
    plans, as pairs of a title and a text, where the program was run.
    """
    return "\n\n".join(
        f"== {each.heading} ==\n\n{body}"
        for each, body in bodies(compiled, chosen(stage), engine, partitions, spark_plans)
    )


def html(
    compiled: Compiled,
    *,
    title: str = "Caladan plan",
    engine: str = "spark",
    partitions: int | None = None,
    spark_plans: Sequence[tuple[str, str]] | None = None,
) -> str:
    """All stages as one page."""
    return page(title, bodies(compiled, STAGES, engine, partitions, spark_plans))
