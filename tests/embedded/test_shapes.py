"""Shapes: recognised from rules, and the same facts as the reference finds."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from caladan.analysis.core import CoreAtom, CoreRule, RelationInfo
from caladan.analysis.written import WrittenRule
from caladan.columns.domains import Domain, OffsetDomain
from caladan.columns.folded_relation import FoldedRelation
from caladan.columns.layout import Layout, Mask, Words
from caladan.columns.matrices import BitRows, RangeRows
from caladan.engines.reference.body import FactStore, solutions
from caladan.fixpoint.blueprint import closure_of
from caladan.fixpoint.shapes.closure import Way, close_pairs
from caladan.fixpoint.shapes.evaluate import solve_closure
from caladan.fixpoint.shapes.generations import classes
from caladan.fixpoint.shapes.pairs import Declined, Interrupted, Pairs, ShapeLimits, distinct
from caladan.join.expressions import Evaluator
from caladan.language import parse
from caladan.pipeline import compile_program
from caladan.plan.literals import CoreLiteral
from caladan.plan.recursion import Closure
from caladan.program import Atom, Comparison, Variable, thresholds
from caladan.program.kinds import Kind
from caladan.rules.program import DeltaClique, DeltaProgram

Edges = set[tuple[int, int]]


def as_written(rule: CoreRule) -> WrittenRule:
    """A rule for the reference engine, which reads no core form."""
    atoms = (Atom(each.relation, each.arguments, each.negated) for each in rule.atoms)
    return WrittenRule(rule.number, rule.head, rule.arguments, (*atoms, *rule.comparisons))


DATABASE = "database({e(A: integer, B: integer), f(A: integer, B: integer), ok(A: integer)}).\n"

SHAPES = [
    "reach(X) <- ok(X). reach(Y) <- reach(X), e(X, Y).",
    "reach(X) <- ok(X). reach(Y) <- reach(X), e(X, Y), f(Y, Z), Z > 3, ~ok(Z).",
    "tc(X, Y) <- e(X, Y). tc(X, Z) <- tc(X, Y), e(Y, Z).",
    "tc(X, Y) <- e(X, Y). tc(X, Z) <- e(X, Y), tc(Y, Z).",
    "tc(X, Y) <- e(X, Y). tc(X, Z) <- tc(X, Y), tc(Y, Z).",
    "tc(X, Y) <- e(X, Y). tc(X, Z) <- tc(Y, Z), tc(X, Y).",
    "p(X, Y) <- f(X, Y). p(X, Z) <- p(X, Y), e(Y, Z). p(X, Z) <- p(X, Y), f(Z, Y).",
    "p(X, Y) <- f(X, Y). p(X, Z) <- p(X, Y), e(Y, W), f(W, Z), W > 2, ~ok(W).",
    "p(X, Y) <- f(X, Y). p(X, Z) <- p(X, Y), e(Y, V), e(V, W), f(W, Z), ok(X).",
    "p(X, Y) <- f(X, Y). p(Z, X) <- p(Y, X), e(Y, W), f(W, Z), e(Y, Q), ok(Q).",
    "p(X, Y) <- f(X, Y). p(X, Z) <- p(X, Y), e(Y, W), f(W, Z), e(Y, Z).",
    "reach(X) <- ok(X). reach(Y) <- reach(X), e(X, V), f(V, Y), ~ok(Y).",
    "p(X, Y) <- f(X, Y). p(Z, X) <- e(Y, Z), p(Y, X).",
    "p(X, Y) <- f(X, Y). p(X, Z) <- ok(X), p(X, Y), e(Y, Z).",
    "p(X, Y) <- f(X, Y). p(Z, X) <- p(Y, X), e(Z, Y), f(X, Q), ok(Q).",
    "p(X, Y) <- f(X, Y). p(X, Z) <- p(X, Y), p(Y, Z). p(X, Z) <- p(X, Y), e(Y, Z).",
    "p(X, Y) <- e(X, Y). p(X, Z) <- e(X, Y), p(Y, Z). p(X, Z) <- p(X, Y), e(Y, Z).",
    "p(X, X) <- ok(X). p(X, 5) <- e(X, _). p(X, Z) <- p(X, Y), e(Y, Z).",
    "sg(X, Y) <- e(P, X), e(P, Y), X ~= Y. sg(X, Y) <- e(A, X), sg(A, B), e(B, Y).",
    "sg(X, Y) <- f(X, Y). sg(X, Y) <- e(A, X), sg(A, B), f(Y, B), Y > 2.",
    "sg(X, X) <- ok(X). sg(X, Y) <- e(A, Q), f(Q, X), sg(A, B), f(B, Y).",
    "p(X, Y) <- e(X, Y). p(X, Y) <- e(A, X), p(A, B), e(B, Y), X < Y.",
    "p(X, Y) <- e(X, Y). p(X, Y) <- e(A, X), p(A, B), e(B, Y). p(X, Y) <- p(Y, X).",
    "a(X) <- ok(X). b(Y) <- a(X), e(X, Y). a(Y) <- b(X), f(X, Y). c(Y) <- b(Y), ok(Y).",
    "a(X, Y) <- e(X, Y). b(X, Z) <- a(X, Y), f(Y, Z). a(X, Z) <- b(X, Y), e(Z, Y).",
    (
        "a(X, X) <- ok(X). b(Z, X) <- a(Y, X), f(Y, Z). a(Z, X) <- b(Y, X), e(Y, Z). "
        "b(Z, X) <- b(Y, X), e(Y, Z)."
    ),
    "sg(X, X) <- ok(X). sg(X, Y) <- e(A, X), f(Q, X), sg(A, B), f(B, Y), ~ok(B).",
]

NEAR_MISSES = [
    "p(X, Y) <- f(X, Y). p(X, Z) <- p(X, Y), e(Y, Z), X > 3.",
    "p(X, Y) <- f(X, Y). p(X, Z) <- p(X, Y), e(Y, Z), X + 1 > 3, ~ok(X).",
    "p(X, Y) <- f(X, Y). p(X, Z) <- p(X, Y), e(Y, Z), ok(X). p(X, Z) <- p(X, Y), f(Y, Z).",
    "p(X, Y) <- f(X, Y). p(X, Z) <- p(X, Y), e(Y, Z), X > 3. p(X, Z) <- p(X, Y), f(Y, Z), X < 9.",
    "p(X, Y) <- f(X, Y). p(X, Z) <- p(X, Y), e(Y, W), f(W, Z), Y < Z.",
    "p(X, Y) <- e(X, Y). p(X, Z) <- p(X, Y), e(Y, Z), X ~= Z.",
    "p(X, Y) <- f(X, Y). p(X, Z) <- p(X, Y), e(Y, Z), X ~= Y, X + Z ~= 9, ~f(Z, X).",
    "p(X, Y) <- f(X, Y). p(Z, X) <- p(Y, X), e(Y, Z), X < Z, ok(X).",
    "p(X, Y) <- e(X, Y). p(X, 1) <- p(X, Y), e(Y, _). p(X, Z) <- p(X, Y), f(Y, Z).",
    "p(X, Y) <- e(X, Y). p(X, 7) <- p(X, 3). p(X, Z) <- p(X, Y), f(Y, Z).",
    "p(X, Y) <- e(X, Y). p(X, Z) <- p(X, 3), ok(Z). p(X, Z) <- p(X, Y), f(Y, Z).",
    "p(X, 1, Y) <- e(X, Y). p(X, 1, Z) <- p(X, 1, Y), f(Y, Z).",
    "p(X, 1, Y) <- e(X, Y). p(X, 2, Y) <- f(X, Y). p(X, 1, Z) <- p(X, 1, Y), f(Y, Z).",
    "p(X, 1, Y) <- e(X, Y). p(X, 2, Z) <- p(X, 1, Y), f(Y, Z). p(X, 1, Z) <- p(X, _, Y), e(Y, Z).",
    "p(X, K, Y) <- e(X, Y), f(K, X). p(X, K, Z) <- p(X, K, Y), e(Y, Z), K ~= 2.",
    "p(K, X, Y, V) <- e(X, Y), f(K, V). p(K, X, Z, W) <- p(K, X, Y, V), e(Y, Z), f(V, W).",
    "p(K, X, Y, V) <- e(X, Y), f(K, V). p(K, X, Z, Y) <- p(K, X, Y, V), f(V, Z), e(Y, _).",
    "p(X, Y, Y) <- e(X, Y). p(X, Z, Y) <- p(X, Y, Y), e(Y, Z). p(X, Z, Z) <- p(X, Z, _), ok(Z).",
    "p(X, Y) <- f(X, Y). p(X, Z) <- p(X, Y), e(Y, Z). p(X, Z) <- f(X, Y), p(Y, Z).",
    "p(X, Y) <- f(X, Y). p(X, Z) <- p(X, Y), e(Y, Z), ok(Z). p(X, Z) <- e(Y, X), p(Y, Z).",
    (
        "p(K, X, Y) <- f(X, Y), ok(K). p(K, X, Z) <- p(K, X, Y), e(Y, Z). "
        "p(K, X, Z) <- p(K, Y, Z), e(Y, X), e(K, _)."
    ),
    "p(X, Y) <- e(X, Y). q(X, Z) <- p(X, Y), e(Y, Z), X > 2. p(X, Z) <- q(X, Y), f(Y, Z).",
    "sg(X, Y) <- f(X, Y). sg(X, Y) <- e(A, X), sg(A, B), e(B, Y), X ~= Y.",
    (
        "sg(X, Y) <- f(X, Y). sg(X, Y) <- e(A, X), sg(A, B), f(Y, B), Y ~= X, X > 2. "
        "sg(X, Y) <- f(A, X), sg(A, B), e(B, Y), ok(Y)."
    ),
    (
        "sg(X, X) <- ok(X). sg(X, Y) <- e(A, X), sg(A, B), e(B, Y). "
        "sg(X, Y) <- e(X, A), sg(A, B), e(Y, B). sg(X, Y) <- f(A, X), sg(A, B), e(B, Y), X ~= Y."
    ),
    "reach(X) <- ok(X). reach(Y) <- reach(3), ok(Y). reach(5) <- reach(_).",
]
NEAR_MISSES += [
    "p(X, Y) <- e(X, Y). p(X, Z) <- p(X, Y), p(Y, Z), ok(Y).",
    "p(X, Y) <- e(X, Y). p(X, Z) <- q(X, Y), e(Y, Z). q(X, Y) <- p(X, Y), ok(X).",
]
EXPLORED = [
    "p(X, Y) <- e(X, Y). p(X, Z) <- p(X, Y), e(X, Z).",
    "p(X, Y) <- e(X, Y). p(X, Z) <- p(X, Y), Z = Y + 1, Z < 40.",
    "p(X, Y) <- e(X, Y). p(X, Z) <- p(X, Y), p(Y, Z), X < Z.",
    "p(X, Y) <- e(X, Y). p(X, Z) <- q(X, Y), e(Y, Z). q(X, Z) <- e(X, Y), p(Y, Z).",
    "p(X, Y) <- e(X, Y). p(Z, X) <- p(X, Y), e(Y, Z).",
]
SHAPES += NEAR_MISSES

MAY_DECLINE = [
    "p(X, Y) <- f(X, Y). p(X, Z) <- p(X, Y), p(Y, Z). p(X, Z) <- p(X, Y), e(Y, Z).",
]

NO_SHAPES = [
    "p(X, Y) <- e(X, Y). p(X, X) <- p(X, Y), e(Y, X).",
    "p(X, Y) <- e(X, Y). p(X, Z) <- p(X, Y), p(Y, W), e(W, Z).",
    "p(X, mmin<Y>) <- e(X, Y). p(X, mmin<V>) <- p(Y, V), e(Y, X), V < X.",
    "p(X, Y) <- e(X, Y). p(X, Z) <- q(X), e(X, Z). q(Z) <- p(_, Z).",
]


@functools.cache
def delta(text: str, goal: str | None = None) -> DeltaProgram:
    program = parse(DATABASE + text + (f" query {goal}." if goal else ""), language="deals")
    return compile_program(program, {}, {}).delta


def recursive(program: DeltaProgram) -> DeltaClique:
    (clique,) = (c for c in program.cliques if c.is_recursive)
    return clique


class Given:
    """The engine's part, played by the reference: values are small integers, so are words."""

    def __init__(self, program: DeltaProgram, facts: dict[str, set[tuple[int, ...]]]) -> None:
        self.program = program
        given = {name: facts.get(name, set()) for name in program.relations}
        given |= {name: set(rows) for name, rows in program.facts.items()}
        self.facts = FactStore(given)

    def start(self, clique: DeltaClique) -> None:
        """Derive the exit facts of a clique."""
        for rule in clique.exit_rules:
            name = rule.rule.head
            self.facts[name] = self.facts[name] | self._rows(rule.rule)

    def exit(self, relation: str) -> tuple[Words, ...]:
        return self._columns(self.facts[relation], self.program.relations[relation].arity)

    def solve(self, rule: CoreRule, most: int | None = None) -> tuple[Words, ...]:
        found = self._rows(rule)
        if most is not None and len(found) > most:
            raise Declined("too many")
        return self._columns(found, len(rule.arguments))

    def info(self, relation: str) -> RelationInfo:
        return self.program.relations[relation]

    def word(self, relation: str, column: int, value: int) -> int | None:
        return value if value >= 0 else None

    def share_words(self, relation: str, *columns: int) -> bool:
        return True

    def layout(self, atom: CoreAtom) -> FoldedRelation | None:
        return None

    def domain(self, relation: str, column: int) -> Domain:
        raise NotImplementedError  # nothing is laid on top

    def evaluator(self, rule: CoreRule, names: Iterable[str]) -> Evaluator:
        del rule
        return Evaluator({n: OffsetDomain(Kind.INTEGER, 0, 1 << 16, grows=False) for n in names})

    def holds(
        self,
        rule: CoreRule,
        literals: Sequence[CoreLiteral],
        columns: Mapping[str, Words],
        shape: tuple[int, int],
    ) -> Mask:
        flat = {n: np.broadcast_to(words, shape).reshape(-1) for n, words in columns.items()}
        names = sorted(flat)
        rows = list(zip(*(flat[n].tolist() for n in names), strict=True))
        tested = tuple(each for each in literals if isinstance(each, CoreAtom))
        known = {each.relation: set(self.facts[each.relation]) for each in tested}
        given = FactStore({**known, "given": set(rows)})
        atoms = (CoreAtom("given", tuple(Variable(n) for n in names)), *tested)
        comparisons = tuple(each for each in literals if isinstance(each, Comparison))
        arguments = tuple(Variable(n) for n in names)
        asked = replace(rule, arguments=arguments, atoms=atoms, comparisons=comparisons)
        found = {tuple(b[n] for n in names) for b in solutions(as_written(asked), given)}
        return np.array([row in found for row in rows], np.bool_).reshape(shape)

    def _rows(self, rule: CoreRule) -> set[tuple[int, ...]]:
        return {
            tuple(b[a.name] if isinstance(a, Variable) else a.value for a in rule.arguments)
            for b in solutions(as_written(rule), self.facts)
        }

    def _columns(self, rows: set[tuple[int, ...]], arity: int) -> tuple[Words, ...]:
        table = np.array(sorted(rows), np.uint32).reshape(-1, arity)
        return tuple(table[:, c].copy() for c in range(arity))

    def finish(self, relations: tuple[str, ...]) -> None:
        """Evaluate a clique naively."""
        clique = next(c for c in self.program.cliques if c.relations == relations)
        grown = True
        while grown:
            grown = False
            for rule in (*clique.exit_rules, *clique.delta_rules):
                name = rule.rule.head
                new = self._rows(rule.rule) - self.facts[name]
                if new:
                    self.facts[name] = self.facts[name] | new
                    grown = True


def limits(budget: int = 1 << 28, threads: int = 2, stop: int = 0) -> ShapeLimits:
    return ShapeLimits(budget, threads, np.array([stop], np.int64))


@pytest.fixture(scope="module", autouse=True)
def however_few() -> Iterator[None]:
    with thresholds.override(shape=0):
        yield


def closure(text: str) -> Closure | str:
    program = delta(text)
    return closure_of(recursive(program), program)


@pytest.mark.parametrize("text", [*SHAPES, *EXPLORED])
def test_factored(text: str) -> None:
    assert isinstance(closure(text), Closure)


@pytest.mark.parametrize("text", NO_SHAPES)
def test_not_factored(text: str) -> None:
    assert isinstance(closure(text), str)


def test_what_is_computed_steps_ahead() -> None:
    """Of hops the source is carried: from behind, every node with every count would be one."""
    found = closure("p(X, Y, 1) <- f(X, Y). p(X, Z, N + 1) <- p(X, Y, N), e(Y, Z).")
    assert isinstance(found, Closure)
    assert found.splits["p"].carried == (0,)
    assert not found.is_two_sided


@st.composite
def edges(draw: st.DrawFn) -> Edges:
    nodes = draw(st.integers(1, 16))
    node = st.integers(0, nodes)
    return draw(st.sets(st.tuples(node, node), max_size=3 * nodes))


def rows_of(layout: object, arity: int) -> set[tuple[int, ...]]:
    listed = [
        tuple(map(int, row))
        for block in layout.blocks(7)  # type: ignore[attr-defined]
        for row in zip(*block, strict=True)
    ]
    assert len(listed) == len(set(listed)) == layout.count()  # type: ignore[attr-defined]
    assert all(len(row) == arity for row in listed)
    return set(listed)


@pytest.mark.parametrize("text", [text for text in SHAPES if text not in NEAR_MISSES])
@given(e=edges(), f=edges(), ok=st.sets(st.tuples(st.integers(0, 16))))
def test_same_facts_as_rounds(text: str, e: Edges, f: Edges, ok: set[tuple[int]]) -> None:
    compare_with_rounds(text, e, f, ok)


@pytest.mark.parametrize("text", NEAR_MISSES)
@settings(max_examples=15)
@given(e=edges(), f=edges(), ok=st.sets(st.tuples(st.integers(0, 16))))
def test_near_misses_have_the_same_facts(
    text: str, e: Edges, f: Edges, ok: set[tuple[int]]
) -> None:
    compare_with_rounds(text, e, f, ok)


def evaluate_shape(
    clique: DeltaClique, program: DeltaProgram, given_facts: Given, most: ShapeLimits
) -> dict[str, Layout] | None:
    """The relations of a clique that has a shape; None if it has none or rounds are better."""
    found = closure_of(clique, program)
    return None if isinstance(found, str) else solve_closure(found, given_facts, most)


def compare_with_rounds(text: str, e: Edges, f: Edges, ok: set[tuple[int]]) -> None:
    program = delta(text)
    given_facts = Given(program, {"e": set(e), "f": set(f), "ok": set(ok)})
    clique = recursive(program)
    given_facts.start(clique)
    answer = evaluate_shape(clique, program, given_facts, limits())
    given_facts.finish(clique.relations)
    if answer is None:
        assert text in MAY_DECLINE
        return
    for name in clique.relations:
        arity = program.relations[name].arity
        assert rows_of(answer[name], arity) == given_facts.facts[name]


@pytest.mark.parametrize("goal", ["tc(1, B)", "tc(A, 1)", "tc(1, 2)"])
@pytest.mark.parametrize("step", ["tc(X, Y), e(Y, Z)", "e(X, Y), tc(Y, Z)"])
@given(e=edges())
def test_bound_goals_have_a_shape_too(goal: str, step: str, e: Edges) -> None:
    program = delta(f"tc(X, Y) <- e(X, Y). tc(X, Z) <- {step}.", goal)
    given_facts = Given(program, {"e": set(e)})
    shaped = 0
    for clique in program.cliques:
        given_facts.start(clique)
        answer = evaluate_shape(clique, program, given_facts, limits())
        given_facts.finish(clique.relations)
        if answer is not None:
            shaped += 1
            (name,) = clique.relations
            arity = program.relations[name].arity
            assert rows_of(answer[name], arity) == given_facts.facts[name]
    assert shaped


def pairs_of(edges: Edges) -> Pairs:
    table = np.array(sorted(edges), np.uint32).reshape(-1, 2)
    return table[:, 0].copy(), table[:, 1].copy()


@given(exits=edges(), step=edges(), same=st.booleans(), threads=st.integers(1, 3))
def test_every_way_gives_the_same(exits: Edges, step: Edges, same: bool, threads: int) -> None:
    start = pairs_of(exits)
    along = start if same else pairs_of(step)
    ways: list[Way] = ["bits", "ranges"] if same or exits == step else ["bits", "ranges", "search"]
    answers = [close_pairs(start, along, limits(threads=threads), way=way) for way in ways]
    assert all(answer is not None for answer in answers)
    assert len({frozenset(rows_of(answer, 2)) for answer in answers}) == 1


def random_pairs(nodes: int, count: int, seed: int) -> Pairs:
    random = np.random.default_rng(seed)
    first, second = random.integers(0, nodes, (2, count)).astype(np.uint32)
    return distinct(first, second)


def test_a_way_is_chosen_by_density() -> None:
    chain = pairs_of({(v + 1, v) for v in range(40_000)})
    sources, sinks = random_pairs(1_500, 90_000, seed=1)
    scattered = (sources + np.uint32(1_500), sinks)
    assert isinstance(close_pairs(chain, chain, limits()), RangeRows)
    assert isinstance(close_pairs(scattered, scattered, limits()), BitRows)


def test_a_long_chain_takes_little_memory() -> None:
    chain = pairs_of({(v, v + 1) for v in range(100_000)})
    answer = close_pairs(chain, chain, limits())
    assert answer is not None
    assert answer.count() == 100_000 * 100_001 // 2
    assert answer.nbytes < 4 << 20


def test_strongly_connected_nodes_share_a_row() -> None:
    ring = pairs_of({(v, (v + 1) % 5000) for v in range(5000)})
    answer = close_pairs(ring, ring, limits())
    assert answer is not None
    assert answer.count() == 5000 * 5000
    assert answer.nbytes < 200_000


def test_a_small_budget_declines() -> None:
    chain = pairs_of({(v, v + 1) for v in range(3000)})
    assert close_pairs(chain, chain, limits(budget=1000)) is None
    assert classes(chain, chain, chain, limits(budget=1000)) is None


def test_few_pairs_decline_and_scattered_words_do_not() -> None:
    program = delta("tc(X, Y) <- e(X, Y). tc(X, Z) <- tc(X, Y), e(Y, Z).")
    few = Given(program, {"e": {(1, 2), (2, 3)}})
    few.start(recursive(program))
    with thresholds.override(shape=100):
        assert evaluate_shape(recursive(program), program, few, limits()) is None
    far = Given(program, {"e": {(1, 2), (2, 1 << 31)}})
    far.start(recursive(program))
    answer = evaluate_shape(recursive(program), program, far, limits())
    assert answer is not None  # they are numbered instead
    assert rows_of(answer["tc"], 2) == {(1, 2), (2, 1 << 31), (1, 1 << 31)}


def test_a_raised_flag_interrupts() -> None:
    thick = pairs_of({(v + k, v) for v in range(8_000) for k in (1, 2)})
    with pytest.raises(Interrupted):
        close_pairs(thick, thick, limits(stop=1))
    with pytest.raises(Interrupted):
        classes(thick, thick, thick, limits(stop=1))


KNOWN = {
    "tree11.csv": (805_001, 2_086_271_974),
    "grid150.csv": (131_675_775, 2_295_050),
    "gnp10K.csv": (100_000_000, None),
    "OL.cedge.tsv": (146_120, 285_431),
    "wiki-Vote.tsv": (11_947_132, None),
    "email-Eu-core.tsv": (793_283, 942_807),
}


@pytest.mark.parametrize("file", list(KNOWN))
def test_known_answers(data_dir: Path, file: str) -> None:
    from pyarrow import csv

    path = data_dir / "graphs" / file
    table = csv.read_csv(
        path,
        csv.ReadOptions(column_names=["a", "b"]),
        csv.ParseOptions(delimiter="\t" if path.suffix == ".tsv" else ","),
    )
    first, second = (c.to_numpy().astype(np.uint32) for c in table.columns)
    arcs = distinct(first, second)
    closure_count, generations_count = KNOWN[file]
    closed = close_pairs(arcs, arcs, limits(1 << 30))
    assert closed is not None and closed.count() == closure_count
    if generations_count is not None:
        answer = classes(siblings(arcs), arcs, arcs, limits(1 << 30))
        assert answer is not None and answer.count() == generations_count
        assert answer.nbytes < 100 << 20
        a_fact = answer.head(1)
        assert answer.contains(a_fact).all()
        x = int(a_fact[0][0])
        assert {x} == {int(w) for first, _ in answer.select({0: x}) for w in first}


def siblings(arcs: Pairs) -> Pairs:
    """sg(X, Y) <- e(P, X), e(P, Y), X ~= Y."""
    parents, children = arcs
    starts = np.searchsorted(parents, np.arange(int(parents.max()) + 2))
    counts = np.diff(starts)[parents]
    first = np.repeat(children, counts)
    inside = np.arange(len(first)) - np.repeat(np.cumsum(counts) - counts, counts)
    second = children[np.repeat(starts[parents], counts) + inside]
    return distinct(first[first != second], second[first != second])


def test_words_far_apart_make_no_long_arrays() -> None:
    """A few words near 2³² are looked for by searching: an array up to the last takes 16 GB."""
    import tracemalloc

    from caladan.fixpoint.shapes.grid import Grid, _share_columns
    from caladan.fixpoint.shapes.pairs import NodePlace

    far = np.array([2**31 + 7, 2**32 - 2, 5, 2**31], np.uint32)
    place = NodePlace((far,), len(far))
    grid = Grid(place, place, [], [])
    tracemalloc.start()
    rows, columns = np.arange(4, dtype=np.uint32), np.array([3, 1], np.uint32)
    found = _share_columns(grid, rows, columns)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.tolist() == [-1, 1, -1, 0]
    assert peak < 1 << 20
