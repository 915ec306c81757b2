"""All stages as one page of HTML: no scripts, no fonts, nothing fetched from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from caladan.pipeline import Stage

_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --faint: #8881; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 76rem; padding: 1.5rem; }
h1 { font-size: 1.4rem; }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1rem; margin-bottom: 1rem; }
details { border: 1px solid var(--line); border-radius: .4rem; margin: .7rem 0; }
summary { cursor: pointer; padding: .5rem .8rem; }
summary b { margin-right: .6rem; }
summary span { opacity: .7; }
pre { background: var(--faint); font: 13px/1.5 ui-monospace, monospace; margin: 0;
      overflow-x: auto; padding: .8rem; tab-size: 4; }
"""


def page(title: str, bodies: Sequence[tuple[Stage, str]]) -> str:
    """A page with one part for each stage, all of them open."""
    links = "\n".join(
        f'<a href="#{escape(stage.name)}">{escape(stage.heading)}</a>' for stage, _ in bodies
    )
    parts = "\n".join(_part(stage, body) for stage, body in bodies)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{escape(title)}</h1>
<nav>
{links}
</nav>
{parts}
</body>
</html>
"""


def _part(stage: Stage, body: str) -> str:
    return (
        f'<details open id="{escape(stage.name)}">\n'
        f"<summary><b>{escape(stage.heading)}</b><span>{escape(stage.shows)}</span></summary>\n"
        f"<pre>{escape(body)}</pre>\n"
        "</details>"
    )
