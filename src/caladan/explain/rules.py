"""Stage `rules`: the rules and goals, as they were written.

A program may hold thousands of facts; of a stretch of facts of one relation the first few are
shown, and how many follow.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from caladan.errors import Span
from caladan.explain.terms import counted
from caladan.language import unparse
from caladan.pipeline import Compiled
from caladan.program import Goal, Program, Rule

_FACTS_SHOWN: Final = 10


def rules(compiled: Compiled) -> str:
    """Every rule and goal."""
    program = compiled.program
    lines = [*_rules(program.rules), *(_goal(g) for g in program.goals)]
    return "\n".join(lines) or "(no rules)"


def _rules(nodes: Sequence[Rule]) -> Iterator[str]:
    for relation, stretch in groupby(nodes, lambda r: None if r.body else r.head.relation):
        found = list(stretch)
        shown = found if relation is None else found[:_FACTS_SHOWN]
        yield from (_rule(r) for r in shown)
        if len(found) > len(shown):
            yield f"% and {counted(len(found) - len(shown), 'more fact')} of {relation}"


def _rule(node: Rule) -> str:
    return _written(node.span) if node.span else unparse(Program(rules=(node,))).strip()


def _goal(node: Goal) -> str:
    if node.span is None:
        return unparse(Program(goals=(node,))).strip()
    return f"{'export' if node.export else 'query'} {_written(node.span)}"


def _written(span: Span) -> str:
    """The source text, its continuation lines indented as they were relative to its start."""
    first, *rest = span.text.rstrip().removesuffix(".").splitlines()
    if not rest:
        return f"{first}."
    margin = " " * (span.column - 1)
    return textwrap.dedent("\n".join((margin + first, *rest))) + "."
