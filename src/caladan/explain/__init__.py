"""Explain: every stage of a compilation as text, or all of them as one page of HTML.

    text(compiled, "pcg")    one stage; "all" for all of them
    html(compiled)           a page of its own that needs nothing from elsewhere

One file a stage, each a function from the artefacts to text; `pipeline.STAGES` names them and gives
their order. Explain reads what the rooms of the compiler handed on; none of them calls it.
"""

from __future__ import annotations

from caladan.explain.stages import (
    ScriptParts,
    Setting,
    bodies,
    choose_stages,
    page,
    script_html,
    script_text,
)
from caladan.pipeline import STAGES, Compiled

__all__ = ["ScriptParts", "Setting", "html", "script_html", "script_text", "text"]


def text(compiled: Compiled, stage: str = "all", setting: Setting | None = None) -> str:
    """A stage, or all of them, each below its heading; on Spark, if nothing else is set."""
    return "\n\n".join(
        f"== {each.heading} ==\n\n{body}"
        for each, body in bodies(compiled, choose_stages(stage), setting or Setting())
    )


def html(compiled: Compiled, *, title: str = "Caladan plan", setting: Setting | None = None) -> str:
    """All stages as one page."""
    return page(title, bodies(compiled, STAGES, setting or Setting()))
