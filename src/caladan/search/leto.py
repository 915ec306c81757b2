"""What Leto knows: an acyclic body reduced to the facts of its results.

`reduced` makes every relation of an acyclic body hold only facts that take part in some result;
comparisons and the like take part if one atom has all their variables. `knows_all` tells for which
atoms the candidates are then exactly those that survive: the body falls apart where variables are
bound; if all bound variables that touch an atom's part are the atom's own, any fact of it that
agrees with them extends to a result of its part, and the parts do not disturb each other.
"""

from __future__ import annotations

import numpy as np

from caladan.search.acyclic import join_tree, reduce_fully
from caladan.search.body import Body
from caladan.search.constraint import allowed
from caladan.search.constraints.one_of import OneOf
from caladan.search.constraints.relation import Stored
from caladan.search.frontier import Frontier, Var, Words
from caladan.search.relation import Relation, Run
from caladan.search.trie import distinct_rows


def knows_all(atom: Stored, frontier: Frontier, body: Body) -> bool:
    """Whether the atom has all bound variables of the part of the body it is connected to."""
    bound = frontier.bound
    inside = atom.variables - bound
    touched = atom.variables
    grown = True
    while grown:
        grown = False
        for other in body.constraints:
            if other.variables & inside and not other.variables <= touched:
                inside |= other.variables - bound
                touched |= other.variables
                grown = True
    return touched & bound <= atom.variables


def reduced(body: Body, seed: Frontier) -> tuple[Body, Frontier] | None:
    """The body over relations that have only facts of results; None if it cannot be done."""
    atoms = [c for c in body.constraints if isinstance(c, Stored | OneOf)]
    rest = [c for c in body.constraints if not isinstance(c, Stored | OneOf)]
    seeded = [seed.columns] if seed.columns else []
    names = [*(c.variables for c in atoms), *(frozenset(s) for s in seeded)]
    tree = join_tree(names) if atoms else None
    if tree is None or not all(any(c.variables <= n for n in names) for c in rest):
        return None
    tables = [_table(c) for c in atoms]
    counts = [count for _, count in tables] + [len(seed)] * len(seeded)
    columns = [table for table, _ in tables] + seeded
    for number, table in enumerate(columns):
        tags = np.arange(counts[number], dtype=np.int64)
        keep = np.ones(counts[number], np.bool_)
        for constraint in rest:
            if constraint.variables <= names[number]:
                keep &= allowed(constraint, Frontier(table, tags))
        columns[number] = {v: c[keep] for v, c in table.items()}
        counts[number] = int(np.count_nonzero(keep))
        if seeded and number == len(columns) - 1:
            seed = seed.take(np.flatnonzero(keep))
    masks = reduce_fully(columns, counts, tree)
    stored = [
        _stored({v: c[mask] for v, c in table.items()}, int(np.count_nonzero(mask)))
        for table, mask, _ in zip(columns, masks, atoms, strict=False)
    ]
    if seeded:
        seed = seed.take(np.flatnonzero(masks[-1]))
    return Body([*stored, *rest], body.variables), seed


def _table(atom: Stored | OneOf) -> tuple[dict[Var, Words], int]:
    """The distinct bindings an atom allows."""
    if isinstance(atom, OneOf):
        return {atom.var: atom.words}, len(atom.words)
    if not atom.variables:
        return {}, int(atom.holds(Frontier.start())[0])
    at = [i for i, a in enumerate(atom.arguments) if isinstance(a, str)]
    parts: list[list[Words]] = []
    for run in atom.relation.runs:
        keep = np.ones(run.count, np.bool_)
        for i, argument in enumerate(atom.arguments):
            if isinstance(argument, int):
                keep &= run.columns[i] == argument
        parts.append([run.columns[i][keep] for i in at])
    joined = [
        np.concatenate([np.empty(0, np.int64), *(p[k] for p in parts)]) for k in range(len(at))
    ]
    rows = distinct_rows(joined)
    return {str(atom.arguments[i]): c for i, c in zip(at, rows, strict=True)}, len(rows[0])


def _stored(table: dict[Var, Words], count: int) -> Stored:
    if table:
        return Stored(Relation.of(list(table.values())), list(table))
    return Stored(Relation(0, [Run([], count)]), [])
