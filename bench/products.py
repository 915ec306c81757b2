"""Products of bit rows against one solution at a time: CPU seconds, in turns.

    python -m bench.products [CASE,CASE,…] [SECONDS]

`brackets` is reachability along matching brackets of eight kinds over 4,000 nodes (18,000 edges):
a relation that becomes dense, joined with itself. The others are its near misses: one more test, of
the head or of what the head lacks, negation, a carried column; and a join that is not recursive.
What takes longer than SECONDS (30) on the wall is given up.
"""

from __future__ import annotations

import sys
import time
from typing import Any, Final

import numpy as np

import caladan
from caladan.program import thresholds


def brackets(tests: str = "") -> str:
    """Paths between matching brackets, with something more in the rule that doubles them."""
    return f"""
        d(X, X) <- open(X, _, _). d(X, X) <- close(_, X, _).
        d(X, Z) <- d(X, Y), d(Y, Z){tests}.
        d(X, W) <- open(X, Y, K), d(Y, Z), close(Z, W, K).
        query d(X, Y)."""


CASES: Final = {
    "brackets": brackets(),
    "unlike ends": brackets(", X ~= Z"),
    "a sum compared": brackets(", X < Z + 2000"),
    "negation": brackets(", ~open(X, Z, 1)"),
    "the middle compared": brackets(", Y < Z + 2000"),
    "carried": """
        d(L, X, X) <- open(X, _, _), label(L). d(L, X, X) <- close(_, X, _), label(L).
        d(L, X, Z) <- d(L, X, Y), d(L, Y, Z).
        d(L, X, W) <- open(X, Y, K), d(L, Y, Z), close(Z, W, K).
        query d(L, X, Y).""",
    "a join": "p(X, Z) <- dense(X, Y), dense(Y, Z). query p(X, Z).",
}
WAYS: Final = {"products": {}, "one by one": {"product_pair": 1e18}}


def data() -> dict[str, Any]:
    """Edges with brackets, and a graph with 200 edges from a node."""
    random = np.random.default_rng(5)
    ends = random.integers(0, 4000, (4, 9000))
    kinds = random.integers(0, 8, (2, 9000))
    dense = random.integers(0, 4000, (2, 800_000))
    return {
        "open": {"a": ends[0], "b": ends[1], "k": kinds[0]},
        "close": {"a": ends[2], "b": ends[3], "k": kinds[1]},
        "dense": {"a": dense[0], "b": dense[1]},
        "label": [(1,), (2,)],
    }


def main() -> None:
    """Print a line for each case: facts, and seconds by each way."""
    names = sys.argv[1].split(",") if len(sys.argv) > 1 else list(CASES)
    longest = float(sys.argv[2]) if len(sys.argv) > 2 else 30.0
    tables = data()
    print(f"{'case':<20} {'facts':>11} " + " ".join(f"{way:>12}" for way in WAYS))
    for name in names:
        facts, times = 0, list[str]()
        for changes in WAYS.values():
            db = caladan.connect("embedded")
            for relation, columns in tables.items():
                db.add(relation, columns)
            with thresholds.override(**changes):
                started = time.process_time()
                try:
                    facts = db.run(CASES[name], timeout=longest).answer.count()
                    times.append(f"{time.process_time() - started:.2f}")
                except caladan.Stopped:
                    times.append(f"> {time.process_time() - started:.1f}")
        print(f"{name:<20} {facts:>11,} " + " ".join(f"{each:>12}" for each in times), flush=True)


if __name__ == "__main__":
    main()
