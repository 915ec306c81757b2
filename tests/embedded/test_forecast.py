"""Explain tells the truth: what the embedded engine forecasts is what its stats say was done."""

from __future__ import annotations

import doctest
import warnings
from collections.abc import Mapping

import pyarrow as pa
import pytest
from tests.programs.corpus import Folder, folders, in_turn

import caladan
from caladan.engines.embedded.engine import given_facts
from caladan.explain.embedded import list_waiting
from caladan.fixpoint import blueprint as blueprints
from caladan.fixpoint.blueprint import blueprint, said
from caladan.fixpoint.forecast import CliqueForecast, Forecast, forecast
from caladan.join.access import keys, views
from caladan.language import parse
from caladan.pipeline import Compiled, compile_program
from caladan.program import Program, thresholds
from caladan.program.events import CliqueStarted, CliqueTaken, Event, Listener
from caladan.program.objects import Objects
from caladan.program.options import Options
from caladan.session import inputs
from caladan.session.session import Session
from caladan.session.stats import CliqueStats, Stats


def given(compiled: Compiled, db: Session) -> Mapping[str, pa.Table]:
    """The data of a session, as a run reads it."""
    tables, _ = db._store.load(compiled, Options(), Listener())
    return given_facts(compiled.delta, tables)


def compare(told: Forecast, stats: Stats) -> None:
    """All that was done had been forecast."""
    assert [c.clique.relations for c in told.cliques] == [c.relations for c in stats.cliques]
    for each, done in zip(told.cliques, stats.cliques, strict=True):
        compare_clique(each, done)
    compare_arrangements(told, stats)


def compare_clique(each: CliqueForecast, done: CliqueStats) -> None:
    assert done.strategy in [option.name for option in each.strategies]
    held = {option.name for option in each.layouts}
    held |= {f"{name}, transposed" for name in held}
    assert set(done.layouts.values()) <= held
    for rule in done.rules:
        possible = each.plans(rule.rule, rule.seed)
        if possible is not None:
            said_before = [[said(step) for step in plan] for plan in possible]
            assert all(plan in said_before for plan in rule.plans), (rule.plans, said_before)
        assert bool(rule.plans) == bool(rule.evaluated)


def compare_arrangements(told: Forecast, stats: Stats) -> None:
    """Arrangements are those of the steps that were taken, and none is made beside them.

    But for what only a run decides, of relations that are told: orders, or views alone.
    """
    relations = told.plan.program.relations
    later = list_waiting(told, is_decided=True)
    orders = {name for what, names in later.items() if "views that" not in what for name in names}
    viewed = {name for names in later.values() for name in names}
    wanted: dict[str, set[tuple[str, ...]]] = {}
    for each in told.cliques:
        for rule in each.everything:
            for plan in rule.plans or ():
                for relation, key in keys(plan):
                    if relation in relations:
                        columns = relations[relation].columns
                        order = told.plan.order(relation, key)
                        names = tuple(columns[i].name for i in order)
                        wanted.setdefault(relation, set()).add(names)
                for relation, view in views(plan):
                    if relation in relations:
                        names = tuple(view.named([c.name for c in relations[relation].columns]))
                        wanted.setdefault(relation, set()).add(names)
    for held in stats.held:
        columns = tuple(c.name for c in relations[held.relation].columns)
        if held.layout == "packed keys" and held.relation not in orders:
            made = {
                each for each in held.arrangements if held.relation not in viewed or "_" not in each
            }
            assert made <= {columns, *wanted.get(held.relation, set())}


WAYS: dict[str, dict[str, int]] = {
    "as it is": {},
    "shapes however small the data is": {"shape": 0, "folded": 0},
    "all rules in parts that can be": {"selective": 0},
    "orders by samples however few": {"worth_sampling": 0, "replan": 0},
}


@pytest.mark.parametrize(("folder", "way"), in_turn(folders(), *WAYS.values()))
def test_program(folder: Folder, way: dict[str, int]) -> None:
    with thresholds.override(**way), caladan.connect("embedded") as db:
        for relation, path in folder.facts.items():
            db.add(relation, path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", caladan.CaladanWarning)
            stats = db.run(folder.program, params=folder.params).stats
        params = inputs.values(folder.params, Objects())
        compiled = compile_program(folder.program, {}, params)
        plan = blueprint(compiled.delta)
        compare(forecast(plan), stats)
        compare(forecast(plan, given(compiled, db)), stats)


CLOSURE = """
database({arc(A: integer, B: integer)}).
tc(A, B) <- arc(A, B).
tc(A, B) <- tc(A, C), arc(C, B).
query tc(A, B).
"""


def closed(program: str, arcs: list[tuple[int, int]]) -> tuple[Forecast, Stats]:
    """What is forecast with data, and what is done."""
    with caladan.connect("embedded") as db:
        db.add("arc", arcs)
        stats = db.run(program).stats
        compiled = compile_program(parse(program), {}, {})
        told = forecast(blueprint(compiled.delta), given(compiled, db))
    compare(told, stats)
    return told, stats


def test_a_closure_is_told_with_its_layout() -> None:
    told, stats = closed(CLOSURE, [(i, i + 1) for i in range(2000)])
    (each,), (done,) = told.cliques, stats.cliques
    assert [o.name for o in each.strategies] == [done.strategy] == ["condensed"]
    assert each.layouts[0].name == done.layouts["tc"] == "ranges"
    assert "2,000 facts" in each.strategies[0].when


def test_a_dense_closure_is_held_in_bits() -> None:
    arcs = [(i * 7919 % 1500, i * 104729 % 1500) for i in range(20000)]
    dag = sorted({(min(a, b), max(a, b)) for a, b in arcs if a != b})
    told, stats = closed(CLOSURE, [(a * 37 % 1511, b * 37 % 1511) for a, b in dag])
    assert told.cliques[0].layouts[0].name == stats.cliques[0].layouts["tc"]


def test_few_facts_go_in_rounds_and_stats_say_why() -> None:
    told, stats = closed(CLOSURE, [(1, 2), (2, 3)])
    assert [o.name for o in told.cliques[0].strategies] == ["rounds"]
    (done,) = stats.cliques
    assert done.strategy == "rounds"
    assert [(d.strategy, d.reason) for d in done.declined] == [
        ("a closure", "its rules read fewer than 1,000 facts")
    ]


DECLINES = """
database({arc(A: integer, B: integer)}).
tc(A, B) <- arc(A, B).
tc(A, B) <- tc(A, C), arc(C, B), arc(A, K), K < B.
query tc(A, B).
"""


def test_a_shape_that_declines_is_never_told_as_taken() -> None:
    seen: list[str] = []

    class Strategies(Listener):
        def tell(self, event: Event) -> None:
            if isinstance(event, CliqueStarted | CliqueTaken):
                seen.append(event.strategy)

    arcs = [(i * 31 % 1999, i * 17 % 1999) for i in range(1, 1500)] + [(0, i) for i in range(40)]
    with caladan.connect("embedded") as db:
        db._listeners = (Strategies(),)
        db.add("arc", arcs)
        stats = db.run(DECLINES).stats
    (done,) = stats.cliques
    assert done.strategy == "rounds"
    assert "blocks" not in seen
    assert [d.strategy for d in done.declined] == ["blocks"]
    assert "its rules look up many values" in done.declined[0].reason
    assert "not blocks: its rules look up many" in str(stats)


def test_one_order_serves_two_lookups() -> None:
    """The chain cover is what runs: (B) and (B, C) share an arrangement, whichever comes first."""
    program = """
    database({r(A: integer, B: integer, C: integer), p(X: integer), q(X: integer, Y: integer)}).
    one(A) <- p(B), r(A, B, _).
    two(A) <- q(B, C), r(A, B, C).
    query one(A). query two(A).
    """
    with caladan.connect("embedded") as db:
        db.add("r", [(i, i % 7, i % 5) for i in range(100)])
        db.add("p", [(1,), (2,)])
        db.add("q", [(1, 1), (2, 2)])
        stats = db.run(program).stats
    (held,) = (h for h in stats.held if h.relation == "r")
    assert held.arrangements == [("A", "B", "C"), ("B", "C", "A")]


def test_tiny_rounds_are_counted() -> None:
    program = """
    database({arc(A: integer, B: integer)}).
    d(A, 0) <- arc(A, _), A = 0.
    d(B, N + 1) <- d(A, N), arc(A, B).
    query d(A, N).
    """
    with warnings.catch_warnings(), caladan.connect("embedded") as db:
        warnings.simplefilter("ignore", caladan.CaladanWarning)
        db.add("arc", [(i, i + 1) for i in range(500)])
        stats = db.run(program).stats
    (done,) = stats.cliques
    assert done.tiny_rounds > 100
    assert "tiny rounds" in str(stats)


def test_a_program_without_rules() -> None:
    told = forecast(blueprint(compile_program(Program(), {}, {}).delta))
    assert told.cliques == ()


def test_doctests() -> None:
    assert doctest.testmod(blueprints) == (0, 10)
