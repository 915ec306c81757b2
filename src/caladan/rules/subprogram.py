"""Programs within a program: some of its cliques, with everything else as data.

What a strategy is handed, and what an executor needs to know: relations that earlier cliques
derived are data there, whoever derived them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from caladan.rules.program import DeltaClique, DeltaProgram


def program_of(program: DeltaProgram, cliques: Sequence[DeltaClique]) -> DeltaProgram:
    """The program of these cliques alone, without goals."""
    derived = {name for clique in cliques for name in clique.relations}
    finished = {name for clique in program.cliques for name in clique.relations} - derived
    names = derived | set(reads(cliques))
    relations = {
        name: replace(info, takes_data=True, is_derived=False) if name in finished else info
        for name, info in program.relations.items()
        if name in names
    }
    return DeltaProgram(
        relations=relations,
        # The facts of a finished relation are in its table already.
        facts={n: rows for n, rows in program.facts.items() if n in names and n not in finished},
        cliques=tuple(cliques),
        goals=(),
    )


def reads(cliques: Iterable[DeltaClique]) -> Iterator[str]:
    """The relations that the rules of some cliques read, each possibly several times."""
    for clique in cliques:
        for rule in (*clique.exit_rules, *clique.delta_rules):
            yield from rule.body.read
