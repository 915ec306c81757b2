"""The pass of recursion: what programs are factored into, and random cliques against the reference.

`recursion.txt` has a program on each line, and below it how it is factored, or why it is refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import caladan
from caladan.language import parse
from caladan.pipeline import compile_program
from caladan.plan.recursion import Closure, Step, factor
from caladan.plan.weights import Refused
from caladan.program import thresholds

DATABASE = (
    "database({e(A: integer, B: integer), f(A: integer, B: integer), ok(A: integer), "
    "w(A: integer, B: integer, C: integer)}).\n"
)
FIXTURE = Path(__file__).with_name("recursion.txt")


def closures(text: str) -> Iterator[Closure | str]:
    """What the recursive cliques of a program compute, or why they are no closures."""
    program = compile_program(parse(DATABASE + text, language="deals"), {}, {}).delta
    for clique in program.cliques:
        if clique.is_recursive:
            rules = [each.rule for each in clique.delta_rules]
            try:
                yield factor(clique.relations, rules, program.relations)
            except Refused as reason:
                yield f"refused: {reason}"


def describe(closure: Closure | str) -> str:
    """The columns of K and N, the solver, and the steps in words."""
    if isinstance(closure, str):
        return closure
    splits = (
        f"{n} K{list(s.carried)} N{list(s.node)}".replace(" ", "")
        for n, s in closure.splits.items()
    )
    flags = [w for w in ("chains", "explores", "mirrored") if getattr(closure, w)]
    steps = " | ".join(map(describe_step, closure.steps))
    return ", ".join([*splits, closure.solver, *flags]) + f": {steps}"


def describe_step(step: Step) -> str:
    found = [side for side in ("left", "right") if getattr(step, side) is not None]
    found += ["condition"] * bool(step.condition)
    found += [name for name in ("leaving", "arriving", "along") if getattr(step, name)]
    found += [name for name in ("apart", "crosses") if getattr(step, name)]
    return " ".join([*found, *(["own"] if step.own else [])])


def fixture() -> list[tuple[str, str]]:
    lines = [line for line in FIXTURE.read_text("utf-8").splitlines() if line.strip()]
    return list(zip(lines[::2], (line.strip() for line in lines[1::2]), strict=True))


@pytest.mark.parametrize(("text", "expected"), fixture())
def test_factored_form(text: str, expected: str) -> None:
    assert "; ".join(map(describe, closures(text))) == expected


# ── Random cliques ───────────────────────────────────────────────────────────────────────────────


def random_clique(chance: Random) -> str:
    """Up to three recursive rules over p (and q), with tests, and a value at times."""
    arity, names = chance.choice((2, 2, 3)), chance.choice((["p"], ["p"], ["p", "q"]))
    value, pool = chance.random() < 0.2 and names == ["p"], "ABCDE"
    third, one = ", f(B, C)" * (arity > 2), ", mmin<1>" * value
    rules = [f"{n}({', '.join(pool[:arity])}{one}) <- e(A, B){third}." for n in names]
    for number in range(chance.randint(1, 3)):
        atoms = [
            f"{chance.choice(names)}({', '.join(chance.choices(pool[:4], k=arity))}"
            f"{f', N{k}' * value})"
            for k in range(chance.choice((1, 1, 1, 2)))
        ]
        others = [
            f"{chance.choice('ef')}({', '.join(chance.choices(pool, k=2))})"
            for _ in range(chance.randint(0, 2))
        ]
        bound = sorted({c for c in "".join((*atoms, *others)) if c in pool})
        kinds = ("ok(%s)", "~ok(%s)", "%s > 2", "w(_, K, %s)", "%s ~= %s", "%s < %s", "~f(%s, %s)")
        tests = [chance.choice((*kinds, "%s = %s")) for _ in range(chance.choice((0, 0, 1, 2)))]
        tests = [t % tuple(chance.choices(bound, k=t.count("%s"))) for t in tests]
        total = " + ".join(f"N{k}" for k in range(len(atoms)))
        head = ", ".join(chance.choices(bound * 4 + ["1"], k=arity))
        head += f", mmin<{total} + 1>" * value
        body = ", ".join((*atoms, *others, *tests))
        rules.append(f"{names[number % len(names)]}({head}) <- {body}.")
    return "\n".join(rules)


def random_chain(chance: Random) -> str:
    """A relation that is joined with itself, beside linear rules: what may be made linear?"""
    value = chance.random() < 0.3
    first = chance.choice(("e(A, B)", "e(A, B), A < 3", "f(A, B), ok(B)"))
    rules = [f"t(A, B{', mmin<1>' * value}) <- {first}."]
    for _ in range(chance.choice((1, 1, 1, 2))):
        nodes, body, at = chance.choice(("ACB", "ACB", "ACDB")), list[str](), "A"
        for k, node in enumerate(nodes[1:]):
            body.append(f"t({at}, {node}{f', N{k}' * value})")
            between = chance.choice(("", "", "f", "ok")) if node != "B" else ""
            at = f"S{k}" if between == "f" else node
            body += [f"f({node}, S{k})" if between == "f" else f"ok({node})"] * bool(between)
        test = chance.choice(("", "", "A > 1", "ok(A)", "B > 1", "A ~= B", "A < B"))
        body += [test] * bool(test)
        total = " + ".join(f"N{k}" for k in range(len(nodes) - 1))
        head = f"t(A, B{f', mmin<{total}>' * value})"
        rules.append(f"{head} <- {', '.join(chance.sample(body, len(body)))}.")
    others = ("t(A, C%s), f(C, B)", "f(A, C), t(C, B%s)", "t(A, C%s), f(C, B), A > 1", "t(B, A%s)")
    for _ in range(chance.choice((0, 0, 1, 2))):
        body = chance.choice((*others, "t(A, C%s), f(C, B), A ~= B")) % (", N" * value)
        rules.append(f"t(A, B{', mmin<N>' * value}) <- {body}.")
    return "\n".join(rules)


def random_facts(chance: Random) -> dict[str, list[tuple[int, ...]]]:
    n = chance.randint(4, 7)

    def pairs() -> set[tuple[int, int]]:
        count = chance.randint(n // 2, 3 * n)
        return {(chance.randint(0, n), chance.randint(0, n)) for _ in range(count)}

    return {
        "e": sorted(pairs()),
        "f": sorted(pairs()),
        "ok": [(x,) for x in range(n + 1) if chance.random() < 0.6],
        "w": [(a, b, chance.randint(1, 4)) for a, b in sorted(pairs())],
    }


def answers(
    engine: str, text: str, facts: dict[str, list[tuple[int, ...]]]
) -> tuple[list[set[tuple[object, ...]]], list[str]]:
    with warnings.catch_warnings(), caladan.connect(engine) as db:
        warnings.simplefilter("ignore", caladan.CaladanWarning)
        for name, rows in facts.items():
            db.add(name, rows)
        out = db.run(DATABASE + text)
        found = [set(answer.rows()) for answer in out.answers]
        return found, [c.strategy for c in out.stats.cliques if c.recursive]


@pytest.mark.parametrize("make", [random_clique, random_chain])
def test_random_cliques(make: object) -> None:
    """Solved as closures they have the facts of the reference, and often more than exit rules."""
    assert callable(make)
    chance, solved, grown = Random(7), 0, 0
    for _ in range(150):
        text = str(make(chance))
        exits = "\n".join(
            r for r in text.splitlines() if not any(n in r[2:] for n in ("p(", "q(", "t("))
        )
        goals = {line[0]: line.partition(")")[0].count(",") + 1 for line in text.splitlines()}
        query = " ".join(f"query {n}({', '.join('XYZV'[:k])})." for n, k in sorted(goals.items()))
        try:
            known = list(closures(f"{text} {query}"))
        except caladan.CaladanError:
            continue  # not stratified, or not safe
        if not known or any(isinstance(each, str) for each in known):
            continue
        facts = random_facts(chance)
        expected, _ = answers("reference", f"{text} {query}", facts)
        with thresholds.override(shape=0):
            found, strategies = answers("embedded", f"{text} {query}", facts)
        assert found == expected, (text, facts)
        solved += "rounds" not in strategies
        grown += expected != answers("reference", f"{exits} {query}", facts)[0]
    assert solved > 20
    assert grown > 10
