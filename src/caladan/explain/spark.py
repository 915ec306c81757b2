"""Stage `spark`: Spark's own plans of every frame it was handed."""

from __future__ import annotations

from collections.abc import Sequence


def spark(plans: Sequence[tuple[str, str]] | None) -> str:
    """Each plan below its title."""
    if not plans:
        return "(Spark's plans need the spark engine and the program's data)"
    return "\n\n".join(f"-- {title}\n{text.strip()}" for title, text in plans)
