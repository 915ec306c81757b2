"""Best values in recursion while facts come and go: at every step what a fresh run derives."""

from random import Random
from typing import Any

import pytest

import caladan
from caladan.program import thresholds

TYPES = (
    "database({{arc(A: integer, B: integer, W: integer), shut(A: integer), "
    "called(A: integer, N: string){}}}). "
)
STEP = "d(A, B, mmin<W>) <- arc(A, B, W). "
PROGRAMS = {
    "distances": STEP + "d(A, B, mmin<D + W>) <- d(A, C, D), arc(C, B, W).",
    "by doubling": STEP + "d(A, C, mmin<D + E>) <- d(A, B, D), d(B, C, E).",
    "widest": (
        "d(A, B, mmax<W>) <- arc(A, B, W). "
        "d(A, B, mmax<if(D < W then D else W)>) <- d(A, C, D), arc(C, B, W)."
    ),
    "labels": "d(A, mmin<A>) <- arc(A, _, _). d(B, mmin<L>) <- d(A, L), arc(A, B, _).",
    "no weight": "d(A, B, mmin<0>) <- arc(A, B, _). d(A, B, mmin<D>) <- d(A, C, D), arc(C, B, _).",
    "not through some": (
        "d(A, B, mmin<W>) <- arc(A, B, W). "
        "d(A, B, mmin<D + W>) <- d(A, C, D), arc(C, B, W), ~shut(C)."
    ),
    "two relations": (
        "odd(A, B, mmin<W>) <- arc(A, B, W). "
        "odd(A, B, mmin<D + W>) <- even(A, C, D), arc(C, B, W). "
        "even(A, B, mmin<D + W>) <- odd(A, C, D), arc(C, B, W)."
    ),
    "two values": (
        "d(A, B, mmin<W>, mmax<W>) <- arc(A, B, W), A < B. "
        "d(A, B, mmin<D + W>, mmax<E + W>) <- d(A, C, D, E), arc(C, B, W), C < B."
    ),
    "of all": "least(mmin<W>) <- arc(_, _, W). least(mmin<V>) <- least(W), arc(W, V, _).",
    "halves": (
        "d(A, B, mmin<W>) <- arc(A, B, W). "
        "d(A, B, mmin<D + 0.5>) <- d(A, C, D), arc(C, B, _), D < 6."
    ),
    "read by others": (
        "d(A, B, mmin<W>) <- arc(A, B, W). d(A, B, mmin<D + W>) <- d(A, C, D), arc(C, B, W). "
        "near(A, count<B>) <- d(A, B, D), D < 4. far(A) <- arc(A, _, _), ~near(A, _)."
    ),
    "given too": (
        f"d(A, B, mmin<W>) <- given(A, B, W), A > 9. {STEP}"
        "d(A, B, mmin<D + W>) <- d(A, C, D), arc(C, B, W)."
    ),
    "texts": (
        "name(A, mmin<N>) <- called(A, N). name(B, mmin<N>) <- name(A, N), arc(A, B, _)."
    ),
}  # fmt: skip


def some(random: Random, name: str) -> tuple[Any, ...]:
    if name == "arc":
        return random.randrange(7), random.randrange(7), random.randrange(4)
    if name == "called":
        return random.randrange(7), random.choice("abcdefg")
    return (random.randrange(7),) if name == "shut" else (*some(random, "arc")[:2], 2)


def follow(text: str, random: Random) -> int:
    """Change the facts step by step, and compare; how often a clique was evaluated anew."""
    names = [n for n in ("arc", "shut", "called", "given") if f"{n}(" in text]
    text = (
        TYPES.format(", given(A: integer, B: integer, W: integer)" if "given" in names else "")
        + text
    )
    text = text.replace("given", "d")
    names = ["d" if name == "given" else name for name in names]
    facts = {name: {some(random, name) for _ in range(random.randint(0, 14))} for name in names}
    db = caladan.connect("embedded")
    for name, rows in facts.items():
        db.add(name, sorted(rows))
    live = db.watch(text)
    for _ in range(20):
        before = {name: set(live[name].rows()) for name in live}
        for name in random.sample(names, random.randint(1, len(names))):
            held = sorted(facts[name])
            less = random.sample(held, min(len(held), random.choice((0, 1, 1, 2))))
            more = [some(random, name) for _ in range(random.choice((0, 0, 1, 2)))]
            db.delete(name, less)
            db.insert(name, more)
            facts[name] = (facts[name] - set(less)) | set(more)
        fresh = caladan.connect("reference")
        for name, rows in facts.items():
            fresh.add(name, sorted(rows))
        wanted = fresh.run(text)
        for name in live:
            after = set(live[name].rows())
            if name in wanted:
                assert after == set(wanted[name].rows()), name
            change = live.changes(name)
            assert set(change.added.rows()) == after - before[name]
            assert set(change.removed.rows()) == before[name] - after
    return sum(each.recomputed for each in live.stats.cliques)


ANEW = ("two values", "of all", "texts")
"""Where nothing but a fresh evaluation tells what is left when something goes."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_best_values(name: str) -> None:
    with thresholds.override(recompute_least=100_000):
        anew = follow(PROGRAMS[name], Random(name))
    assert (anew > 0) == (name in ANEW)
