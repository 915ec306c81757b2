"""What one part of a pivoted clique evaluates.

A pivot is a column that every recursive rule hands on unchanged, so a fact and everything derived
from it agree there. A part has the facts whose pivot value falls to it, by a hash of the value. It
is a program like any other: where an exit rule takes its pivot from an atom, that atom is joined
with those of its facts that fall to the part (`arc#0`: chosen by column 0 of `arc`); the facts that
the clique is given are chosen in the same way. Nothing else changes, and no rule looks at parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias, cast

import pyarrow as pa

from caladan.data.schema import ARROW, array_of
from caladan.delta.program import DeltaProgram, DeltaRule
from caladan.engines.spark.choice import origin
from caladan.engines.spark.tasks.hashing import falls_to, only
from caladan.operators.tree import AntiJoin, Join, Operator, Project, Scan, Unit
from caladan.program import Constant

Chosen: TypeAlias = tuple[str, int]


def in_part(
    program: DeltaProgram, facts: Mapping[str, pa.Table], part: int, parts: int
) -> tuple[DeltaProgram, dict[str, pa.Table]]:
    """The program and the facts of a part; the program has one clique, which has a pivot."""
    (clique,) = program.cliques
    pivot = cast("Mapping[str, int]", clique.pivot)
    chosen: dict[Chosen, None] = {}
    exits: list[DeltaRule] = []
    for rule in clique.exit_rules:
        given = rule.rule.arguments[pivot[rule.rule.head]]
        if isinstance(given, Constant):
            type = program.relations[rule.rule.head].columns[pivot[rule.rule.head]].type
            if falls_to(array_of([given.value], ARROW[type]), part, parts)[0]:
                exits.append(rule)
            continue
        scan, column = cast("tuple[Scan, int]", origin(rule, pivot))
        chosen[scan.relation, column] = None
        exits.append(_reading(rule, scan, _name(scan.relation, column)))
    relations = dict(program.relations)
    store = dict(facts)
    written = dict(program.facts)
    for name, column in [*chosen, *pivot.items()]:
        to = name if name in pivot else _name(name, column)
        relations[to] = replace(relations[name], name=to)
        if name in facts:
            store[to] = only(facts[name], falls_to(facts[name].column(column), part, parts))
        if rows := program.facts.get(name):
            type = relations[name].columns[column].type
            falls = falls_to(array_of([row[column] for row in rows], ARROW[type]), part, parts)
            written[to] = tuple(row for row, keep in zip(rows, falls, strict=True) if keep)
    own = replace(clique, exit_rules=tuple(exits))
    return replace(program, relations=relations, facts=written, cliques=(own,)), store


def _name(relation: str, column: int) -> str:
    return f"{relation}#{column}"


def _reading(rule: DeltaRule, scan: Scan, name: str) -> DeltaRule:
    """The rule, with one of its scans restricted to the facts that another relation has.

    The scan itself stays: the engine then knows that the columns of both hold the same values,
    and goes about the clique as it would without parts.
    """
    both = Join(replace(scan, relation=name), scan)
    return replace(rule, plan=cast("Project", replaced(rule.plan, scan, both)))


def replaced(node: Operator, old: Scan, new: Operator) -> Operator:
    """A plan with one of its scans replaced."""
    if node is old:
        return new
    match node:
        case Unit() | Scan():
            return node
        case Join():
            left, right = replaced(node.left, old, new), replaced(node.right, old, new)
            return replace(node, left=left, right=right)
        case AntiJoin():
            return replace(node, left=replaced(node.left, old, new))
        case _:
            return replace(cast("Any", node), input=replaced(node.input, old, new))
