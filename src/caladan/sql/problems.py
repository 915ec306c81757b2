"""Errors of SQL engines as diagnostics: what the engine said, in a line, and where it belongs.

The engine sees text that we made, so its own positions mean nothing to users. The names that it
quotes do: the place is the first name in the user's text that the engine's message mentions, or
else the statement.
"""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from caladan.language.rasql.script import span_of
from caladan.program import Column
from caladan.program.depth import too_deep
from caladan.program.diagnostics import CaladanError, SourceText, Span, error

_QUOTED: Final = re.compile(r"""["'`]([^"'`\n]+)["'`]""")
_KIND: Final = re.compile(r"^(?:[A-Z]\w*(?: [A-Z]\w*)* Error|\[[A-Z_.0-9]+\]):?\s*")
_MACRO: Final = re.compile(r"^macro spark_(\w+?)(?:_\d+)?\(\) does not support")
_NOISE: Final = re.compile(r"\s*(?:SQLSTATE: \w+\.?|;?\s*line \d+ pos \d+.*)$")


def refused(message: str, tree: exp.Query | None, source: SourceText) -> CaladanError:
    """C062 with the place that an engine's message is about; C040 for a division by zero.

    C001 for a query that nests more deeply than the engine goes.
    """
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    said = _NOISE.sub("", _KIND.sub("", lines[0] if lines else "no reason given")).rstrip(".;")
    said, _, _ = said.partition(". ")  # what follows is advice about another SQL
    said = said[:1].lower() + said[1:]
    if found := _MACRO.match(said):
        said = f"`{found[1]}` does not take such arguments on embedded"
    if said.startswith("max expression depth"):
        return too_deep("the query", _place("", tree, source))
    code = "C040" if " by zero" in said else "C062"
    return error(code, f"the SQL engine says: {said}", _place(said, tree, source))


def no_type(name: str, spelled: str, tree: exp.Query | None, source: SourceText) -> CaladanError:
    """C065 for a column of a type that relations do not have."""
    selected = [] if tree is None else [s for s in tree.selects if s.alias_or_name == name]
    return error(
        "C065",
        f"column {name} is {spelled.lower()}, which no column of a relation holds",
        span_of(selected[0] if selected else tree, source),
        help="cast it, or take it apart in the query",
    )


def no_objects(name: str, column: Column, place: Span | None = None) -> CaladanError:
    """C065 for a table with Python's objects in it."""
    return error(
        "C065",
        f"column {column.name} of `{name}` holds objects, which SQL cannot",
        place,
        help="ask for it with rules, in DeALS",
    )


def _place(said: str, tree: exp.Query | None, source: SourceText) -> Span | None:
    if tree is None:
        return None
    if " by zero" in said:
        divided = tree.find(exp.Div, exp.IntDiv, exp.Mod)
        return span_of(divided or tree, source)
    words = set(re.findall(r"\w+", said.lower()))
    names = {part.lower() for quoted in _QUOTED.findall(said) for part in quoted.split(".")}
    for node in tree.find_all(exp.Identifier, exp.Anonymous, exp.AnonymousAggFunc):
        known = names if isinstance(node, exp.Identifier) else words
        if node.name.lower() in known:
            return span_of(node, source)
    return span_of(tree, source)
