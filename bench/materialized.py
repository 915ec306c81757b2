"""Bound questions on relations that an earlier run derived, beside deriving what they need.

    python -m bench.materialized

Prints the median of ten questions in milliseconds, warm, with and without `keep`. `tc` is held as
ranges, `listed` as sorted runs.
"""

from __future__ import annotations

import statistics
import time

import caladan as cal

NODES = 5500
RULES = """
    tc(A, B) <- arc(A, B).
    tc(A, B) <- tc(A, C), arc(C, B).
    listed(A, B) <- number(A), number(B), (A * B) mod 7 ~= 3.
"""
QUESTIONS = ("tc(7, X)", "tc(X, 9)", "listed(7, X)", "listed(X, 9)")


def main() -> None:
    """Run all questions."""
    with cal.connect("embedded") as db:
        db.add("arc", [(i, i + 1) for i in range(NODES)] + [(i, i + 2) for i in range(NODES - 2)])
        db.add("number", [(i,) for i in range(4200)])
        out = db.run(RULES)
        for name in ("tc", "listed"):
            print(f"{name}: {out[name].count():,} facts")
        print(f"{'question':<16} {'kept, ms':>10} {'derived, ms':>12}")
        for question in QUESTIONS:
            kept, derived = (_median(db, question, keep) for keep in (True, False))
            print(f"{question:<16} {kept:>10.2f} {derived:>12.2f}")


def _median(db: cal.Session, question: str, keep: bool) -> float:
    seconds: list[float] = []
    for _ in range(12):
        started = time.perf_counter()
        db.query(question, keep=keep).count()
        seconds.append(time.perf_counter() - started)
    return 1000 * statistics.median(seconds[2:])


if __name__ == "__main__":
    main()
