"""Accumulating in mid-join against run by run: CPU seconds, warm, the best of three.

    python -m bench.accumulation [CASE,CASE,…] [SHARE]
    python -m bench.accumulation lookups

Merged: for a batch and a relation of several runs, the keys are found, each run is restricted to
them, the restrictions are merged, and the batch is crossed with them once. *runs*: each run by
itself. *default* merges where that saves searches, and touches fewer rows (columns/index.py).
Behind the seconds: how many lookups met several runs, and how many of them the default merged.

`galen-six` are the six rules of datatoad's GALEN script over the ontology in galen-el: subclasses
p, conjunctions c, existentials q and u, sub-properties s; compositions r of properties are made up,
for the ontology has one. `composed` is a closure by doubling with labels that compose, which goes
in rounds and derives each fact hundreds of times. A SHARE below 1 takes so much of the classes.
`lookups` is one lookup of a large batch in a relation of several runs, without a program around it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import numpy as np

import caladan
from bench.cases import find
from bench.data import FOLDER
from caladan.columns.domains import OffsetDomain
from caladan.columns.index import RunIndex
from caladan.columns.relation import StoredRelation
from caladan.join.constraints.lookup import AtomLookup
from caladan.join.frontier import Bindings
from caladan.program import thresholds
from caladan.program.kinds import Kind
from caladan.rules.body import Version

SIX: Final = """
database({p0(X: integer, Y: integer), q0(X: integer, R: integer, Y: integer),
  r(R: integer, S: integer, T: integer), c(Y: integer, W: integer, Z: integer),
  u(W: integer, R: integer, Z: integer), s(R: integer, S: integer)}).
p(X, Z) <- p0(X, Z).
q(X, R, Z) <- q0(X, R, Z).
p(X, Z) <- p(X, Y), p(Y, Z).
q(X, R, Z) <- p(X, Y), q(Y, R, Z).
p(X, Z) <- p(Y, W), u(W, R, Z), q(X, R, Y).
p(X, Z) <- c(Y, W, Z), p(X, W), p(X, Y).
q(X, S, Z) <- q(X, R, Z), s(R, S).
q(X, T, O) <- q(X, R, Z), r(R, S, T), q(Z, S, O).
"""
COMPOSED: Final = """
database({e(X: integer, Y: integer, L: integer), c(L: integer, M: integer, N: integer)}).
p(X, Y, L) <- e(X, Y, L).
p(X, Z, N) <- p(X, Y, L), p(Y, Z, M), c(L, M, N).
"""
WAYS: Final = {"runs": 0, "default": thresholds.Thresholds().accumulate}


def main() -> None:
    """Print a line for each case: facts, and seconds by each way."""
    if sys.argv[1:] == ["lookups"]:
        lookups()
        return
    names = sys.argv[1].split(",") if len(sys.argv) > 1 else list(CASES)
    share = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
    print(f"{'case':<12} {'facts':>11} " + " ".join(f"{way:>8}" for way in WAYS))
    for name in names:
        program, data = CASES[name]
        tables = data(share)
        facts, seconds, met = 0, dict.fromkeys(WAYS, float("inf")), (0, 0)
        for turn in range(4):  # the first one warms up; ways take turns, for machines get busy
            for way, accumulate in WAYS.items():
                db = caladan.connect("embedded")
                for relation, columns in tables.items():
                    db.add(relation, columns)
                with thresholds.override(accumulate=accumulate):
                    started = time.process_time()
                    out = db.run(program)
                    facts = sum(out[each].count() for each in out)
                    taken = time.process_time() - started
                seconds[way] = min(seconds[way], taken) if turn else seconds[way]
                rules = [rule for clique in out.stats.cliques for rule in clique.rules]
                met = sum(r.lookups for r in rules), sum(r.accumulated for r in rules)
        times = " ".join(f"{each:>8.3f}" for each in seconds.values())
        print(f"{name:<12} {facts:>11,} {times}  {met[1]:,} of {met[0]:,}", flush=True)


def lookups() -> None:
    """Print a line for each number of runs and of keys that a batch of a million rows looks for."""
    random = np.random.default_rng(1)
    print(f"{'runs':>4} {'keys':>8} {'found':>11} " + " ".join(f"{way:>8}" for way in WAYS))
    for most in (1, 2, 4, 6):
        for keys, largest in ((20_000, 200_000), (200_000, 1_600_000)):
            relation = _runs(random, most, keys, largest)
            step = AtomLookup(relation, Version.FULL, {0: "x"}, {}, {1: "y"}, counting=False)
            words = random.integers(0, keys, 1_000_000).astype(np.uint32)
            batch = Bindings(len(words), {"x": words})
            found, seconds = 0, dict.fromkeys(WAYS, float("inf"))
            for _ in range(3):
                for way, accumulate in WAYS.items():
                    with thresholds.override(accumulate=accumulate):
                        started = time.process_time()
                        found = sum(each.rows for each in step.run(batch, frozenset("xy")))
                        seconds[way] = min(seconds[way], time.process_time() - started)
            times = " ".join(f"{each:>8.3f}" for each in seconds.values())
            index = cast("RunIndex", relation.index((0,), Version.FULL))
            print(f"{len(index.runs):>4} {keys:>8,} {found:>11,} {times}")


def _runs(random: np.random.Generator, most: int, keys: int, largest: int) -> StoredRelation:
    """A relation of so many runs, each an eighth of the one before."""
    domain = OffsetDomain(Kind.INTEGER, 0, 1 << 20, grows=False)
    relation = StoredRelation([domain, domain])
    for number in range(most):
        rows = largest >> 3 * number
        values = (random.integers(0, end, rows).astype(np.uint32) for end in (keys, 1 << 20))
        relation.add(list(values), rows)
        relation.flip()
        relation.commit()
    return relation


def _galen(share: float) -> Mapping[str, Any]:
    """The ontology by numbers, as much of its classes as asked for."""
    numbers: dict[str, int] = {}
    names = ("subClassOf", "exists", "conj", "subProp")
    tables = {name: _numbered(f"galen-el/{name}.csv.gz", numbers) for name in names}
    random = np.random.default_rng(4)
    kept = random.random(len(numbers)) < share
    kept[tables["exists"][:, 1]] = kept[tables["subProp"].ravel()] = True
    sub, exists, conj, properties = (t[kept[t].all(axis=1)] for t in tables.values())
    roles = np.unique(exists[:, 1])
    composed = random.choice(roles, (len(roles) // 8, 3))
    return {
        "p0": _columns("XY", sub),
        "q0": _columns("XRY", exists),
        "u": _columns("WRZ", exists[:, [2, 1, 0]]),
        "c": _columns("YWZ", conj[:, [1, 2, 0]]),
        "s": _columns("RS", properties),
        "r": _columns("RST", composed),
    }


def _labelled(share: float) -> Mapping[str, Any]:
    """A random graph with labels, and which labels follow each other: 19 rounds."""
    random = np.random.default_rng(3)
    n, m = round(300 * share), round(500 * share)
    ends = [random.integers(0, n, m), random.integers(0, n, m), random.integers(0, 4, m)]
    follows = [(0, 1, 2), (1, 2, 3), (2, 3, 0), (3, 0, 1), (0, 0, 1), (1, 1, 2)]
    return {"e": dict(zip("XYL", ends, strict=True)), "c": _columns("LMN", np.array(follows))}


def _numbered(path: str, numbers: dict[str, int]) -> np.ndarray:
    import gzip

    with gzip.open(FOLDER / path, "rt") as lines:
        rows = [line.rstrip("\n").split(",") for line in lines]
    return np.array([[numbers.setdefault(value, len(numbers)) for value in row] for row in rows])


def _columns(names: str, facts: np.ndarray) -> dict[str, np.ndarray]:
    return dict(zip(names, facts.T, strict=True))


def _known(name: str) -> tuple[str, Callable[[float], Mapping[str, Any]]]:
    """A case of the other benches."""
    (case,) = find([name])
    return case.text("deals.dl") or "", lambda _: case.data.tables()


CASES: Final[Mapping[str, tuple[str, Callable[[float], Mapping[str, Any]]]]] = {
    "composed": (COMPOSED, _labelled),
    "galen-six": (SIX, _galen),
    "cspa-10k": _known("cspa-10k"),
    "galen-el": _known("galen-el"),
    "andersen-5M": _known("andersen-5M"),
}

if __name__ == "__main__":
    main()
