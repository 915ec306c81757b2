"""Cyclic bodies: the engine's propose step beside the guided search, over the same stored runs.

    python -m bench.search_cyclic

Both list the solutions of one body; CPU seconds, the best of three. See
docs/decisions/0019-one-variable-at-a-time.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa

from bench.cases import find
from caladan.columns.domains import Domain, closed_domain
from caladan.columns.ranks import arrow_ranks
from caladan.columns.relation import StoredRelation
from caladan.join.adaptive import solve
from caladan.join.constraints.atom import StoredAtom
from caladan.join.frontier import Bindings
from caladan.join.plan import RulePlan
from caladan.join.walk import SolutionSink
from caladan.program import Column, Type, Variable
from caladan.program.kinds import Kind
from caladan.rules.body import Body, Scan, ScanKind, Version

CYCLE: Final = ("ab", "bc", "ca")
CLIQUE: Final = ("ab", "ac", "bc", "ad", "bd", "cd")
CASES: Final = {
    "triangles-wiki-Vote": ("ab", "bc", "ac"),
    "cycles-wiki-Vote": CYCLE,
    "cycles-hub-300k": CYCLE,
    "cycles-hub-3M": CYCLE,
    "cliques4-email": CLIQUE,
}
GRADES: Final = ("jessica", "paul", "ghanima", "leto")


def main() -> None:
    """Print a line for each case."""
    print(f"{'case':<22} {'solutions':>10} {'propose':>8}", *(f"{g:>8}" for g in GRADES))
    for name, atoms in CASES.items():
        (case,) = (each for each in find([name]) if each.name == name)
        relation, domain = _stored(case.data.tables()["arc"])
        count, propose = _best(lambda r=relation, d=domain, a=atoms: _proposed(r, d, a))
        times: list[float] = []
        for grade in GRADES:
            found, seconds = _best(lambda r=relation, a=atoms, g=grade: _searched(r, a, g))
            assert found == count, (name, grade, found, count)
            times.append(seconds)
        print(f"{name:<22} {count:>10,} {propose:>8.3f}", *(f"{s:>8.3f}" for s in times))


def _stored(table: pa.Table) -> tuple[StoredRelation, Domain]:
    """The arcs from smaller to larger, and the loops of the hub, stored once."""
    ranks = [arrow_ranks(column, Kind.INTEGER) for column in table.columns]
    domain, words = closed_domain(Kind.INTEGER, ranks)
    relation = StoredRelation([domain, domain])
    relation.add(words, table.num_rows)
    relation.flip()
    relation.commit()
    return relation, domain


COLUMNS: Final = (Column("A", Type.LONG), Column("B", Type.LONG))


def _proposed(relation: StoredRelation, domain: Domain, atoms: Sequence[str]) -> int:
    names = sorted(set("".join(atoms)))
    scans = tuple(
        Scan("arc", (Variable(a[0]), Variable(a[1])), COLUMNS, ScanKind.BASE) for a in atoms
    )
    columns = tuple(map(Variable, names))
    types = dict.fromkeys(names, Type.LONG)
    body = Body(scans, columns, (), None, types, counting=False)
    domains = dict.fromkeys(names, domain)
    plan = RulePlan(body, {"arc": relation}, lambda _: relation, domains, lambda *_: domain)
    sink = SolutionSink(_look)
    plan.run(sink, lambda: None)
    return sink.count


def _look(frontier: Bindings) -> None:
    """Whoever takes solutions reads their columns."""
    for words in frontier.columns.values():
        words.max(initial=0)


def _searched(relation: StoredRelation, atoms: Sequence[str], grade: str) -> int:
    names = sorted(set("".join(atoms)))
    searched = [StoredAtom(relation, Version.FULL, tuple(a)) for a in atoms]
    count = 0
    for found in solve(searched, names, grade=grade):
        count += found.rows
        _look(found)
    return count


def _best(work: Callable[[], int]) -> tuple[int, float]:
    """What some work gives, and the least CPU time it took."""
    times: list[float] = []
    found = 0
    while len(times) < 3 and sum(times) < 20:
        started = time.process_time()
        found = work()
        times.append(time.process_time() - started)
    return found, min(times)


if __name__ == "__main__":
    main()
