"""Rows, not only facts: `tx[R](A, V)` ranges over the rows of data, equal ones too.

    s(A, sum<V>) <- tx[R](A, V).

reads a relation of its own, `tx[](row, A, V)`, which has the data of `tx` and a number for each of
its rows. What a number is, is up to the engine: no two rows have the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from caladan.program import Atom, Column, Declaration, Program, Type
from caladan.program.diagnostics import Diagnostics
from caladan.program.transform import replace_in, walk

_ROW = Column("row", Type.LONG, role="row")


def number_rows(
    program: Program, catalog: Mapping[str, tuple[Column, ...]], found: Diagnostics
) -> tuple[Program, dict[str, str]]:
    """The program with relations of numbered rows, and the data that each of them has.

    C026 for rows of what is derived, and in goals.
    """
    for goal in program.goals:
        if goal.atom.row is not None:
            found.add(
                "C026",
                "a goal returns facts, not rows",
                goal.atom.row.span,
                help="write a rule over the rows, and query its relation",
            )
    if not any(isinstance(n, Atom) and n.row is not None for r in program.rules for n in walk(r)):
        return program, {}
    known = {name: Declaration(name, columns) for name, columns in catalog.items()}
    known |= {each.name: each for each in program.relations}
    heads = {rule.head.relation for rule in program.rules}
    made: dict[str, Declaration] = {}

    def read(node: object) -> object:
        if not isinstance(node, Atom) or node.row is None:
            return None
        name = node.relation
        if name not in known or name in heads:
            found.add(
                "C026",
                f"`{name}` has rules, and so no rows: only data has",
                node.span,
                help=f"write `{name}(…)`",
            )
            return replace(node, row=None)
        of = f"{name}[]"
        made[of] = Declaration(of, (_ROW, *known[name].columns), known[name].span)
        return replace(node, relation=of, arguments=(node.row, *node.arguments), row=None)

    rules = tuple(replace_in(program.rules, read))
    rewritten = replace(program, rules=rules, relations=(*program.relations, *made.values()))
    return rewritten, {name: name.removesuffix("[]") for name in made}
