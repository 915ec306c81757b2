"""What a tiny round costs on Spark, and whether late rounds cost more than early ones.

    python -m bench.spark_rounds [ROUNDS] [STRATEGY] [SETTING=VALUE…]

Follows a chain from its first node: one new fact a round. Prints the median of each hundred rounds
and what Spark still holds at the end.
"""

import statistics
import sys
from typing import Any

import caladan
from caladan.program.events import Event, Listener, RoundDone

PROGRAM = """database({arc(A: integer, B: integer)}).
reached(0). reached(B) <- reached(A), arc(A, B). query reached(A)."""


class Rounds(Listener):
    """Notes how long each round took."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def tell(self, event: Event) -> None:
        if isinstance(event, RoundDone):
            self.seconds.append(event.seconds)


def main(rounds: int, strategy: str, conf: dict[str, str]) -> None:
    """Measure and print."""
    listener = Rounds()
    with caladan.connect("spark", master="local[2]", conf=conf, listeners=[listener]) as db:
        db.add("arc", [(i, i + 1) for i in range(rounds)])
        with db.run(PROGRAM, strategy=strategy) as out:
            print(f"{out.answer.count()} facts in {len(listener.seconds)} rounds")
        context: Any = db._engine.session.sparkContext
        held = context._jsc.sc().getPersistentRDDs().size()
    for start in range(0, rounds, 100):
        median = statistics.median(listener.seconds[start : start + 100])
        print(f"rounds {start + 1:>4} to {start + 100:>4}: {median * 1000:6.1f} ms (median)")
    print(f"frames held after the run: {held} (its data)")


if __name__ == "__main__":
    given = sys.argv[1:]
    settings = dict(each.split("=", 1) for each in given[2:])
    main(int(given[0]) if given else 500, given[1] if len(given) > 1 else "frame", settings)
