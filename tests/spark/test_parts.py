"""Parts of a pivoted clique: together they derive what the whole does, and no fact twice."""

import datetime as dt
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from caladan.data.schema import arrow_schema
from caladan.engines.embedded.engine import EmbeddedEngine
from caladan.engines.embedded.tables import LoadedTable
from caladan.engines.spark.choice import choices, why_not_pivoted
from caladan.engines.spark.tasks.cells import ByCell
from caladan.engines.spark.tasks.exchange import receive, sent
from caladan.engines.spark.tasks.shard import ByPivot, falls_to, in_part
from caladan.language import parse
from caladan.pipeline import compile_program
from caladan.program.events import Listener
from caladan.program.options import Options
from caladan.rules.program import DeltaProgram, program_of

ARC = "database({arc(A: integer, B: integer)}).\n"

PIVOTED = {
    "closure": "p(A, B) <- arc(A, B). p(A, B) <- p(A, C), arc(C, B). query p(A, B).",
    "from the right": "p(A, B) <- arc(A, B). p(A, B) <- arc(A, C), p(C, B). query p(A, B).",
    "facts and data": """p(7, 8). p(A, B) <- arc(B, A). p(3, B) <- arc(B, B).
        p(A, B) <- p(A, C), arc(C, B), A ~= B. query p(A, B).""",
    "mutual": """odd(A, B) <- arc(A, B). even(A, B) <- odd(A, C), arc(C, B).
        odd(A, B) <- even(A, C), arc(C, B). query odd(A, B). query even(A, B).""",
    "shortest": """p(A, B, mmin<D>) <- arc(A, B), D = A + 2 * B + 1.
        p(A, B, mmin<D>) <- p(A, C, D1), arc(C, B), D = D1 + C + 1. query p(A, B, D).""",
    "paths": """p(A, B, msum<N>) <- arc(A, B), A < B, N = 1.
        p(A, B, msum<N>) <- p(A, C, N), arc(C, B), C < B. query p(A, B, N).""",
    "wider": """p(X, B) <- arc(A, B), X = A, arc(X, _). p(A, B) <- p(A, C), ~arc(B, C), arc(C, B).
        query p(A, B).""",
    "only where negated": """q(A) <- arc(A, A).
        p(A, B) <- arc(A, B), ~q(B). p(A, B) <- p(A, C), arc(C, B), ~q(C). query p(A, B).""",
}  # fmt: skip


def compiled(text: str) -> DeltaProgram:
    return compile_program(parse(ARC + text), {}, {}).delta


def last_clique(program: DeltaProgram, arcs: Any) -> tuple[DeltaProgram, dict[str, pa.Table]]:
    """The program of the last clique, and what it is given: data, and what others derived."""
    columns = program.relations["arc"].columns
    data = pa.Table.from_pylist([{"A": a, "B": b} for a, b in arcs], schema=arrow_schema(columns))
    store = {"arc": LoadedTable(columns, data)}
    everything = EmbeddedEngine().run(program, store, Options(), Listener())
    own = program_of(program, program.cliques[-1:])
    finished = {n for n, i in own.relations.items() if i.takes_data and n != "arc"}
    return own, {"arc": data, **{name: everything[name].arrow() for name in finished}}


def exchanged(cut: ByPivot | ByCell, facts: dict[str, pa.Table]) -> list[dict[str, pa.Table]]:
    """What each task gets: its shares, in two pieces, and what all have whole."""
    halves = {n: (t.slice(0, t.num_rows // 2), t.slice(t.num_rows // 2)) for n, t in facts.items()}
    given = [(n, Given(half)) for n in cut.sources & facts.keys() for half in halves[n]]
    came = list(sent(cut, given))
    whole = {name: facts[name] for name in cut.whole & facts.keys()}
    return [whole | receive(s for s in came if s[0] == part) for part in range(cut.parts)]


@dataclass(frozen=True)
class Given:
    """Facts that are here."""

    facts: pa.Table
    files: tuple[str, ...] = ()

    def read(self) -> pa.Table:
        return self.facts

    def close(self) -> None: ...


def derived(program: DeltaProgram, facts: dict[str, pa.Table]) -> dict[str, list[Any]]:
    store = {n: LoadedTable(program.relations[n].columns, t) for n, t in facts.items()}
    tables = EmbeddedEngine().run(program, store, Options(), Listener())
    names = [name for clique in program.cliques for name in clique.relations]
    return {n: [tuple(row.values()) for row in tables[n].arrow().to_pylist()] for n in names}


@pytest.mark.parametrize("name", PIVOTED)
@settings(max_examples=12)
@given(
    arcs=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30),
    parts=st.integers(1, 4),
)
def test_parts_make_the_whole(name: str, arcs: list[tuple[int, int]], parts: int) -> None:
    program, facts = last_clique(compiled(PIVOTED[name]), arcs)
    assert why_not_pivoted(program.cliques[0]) is None
    whole = derived(program, facts)
    cut = ByPivot.of(program, parts)
    shared = exchanged(cut, facts)
    pieces = [derived(*in_part(program, shared[part], part, cut)) for part in range(parts)]
    for relation, rows in whole.items():
        together = [row for piece in pieces for row in piece[relation]]
        assert sorted(together) == sorted(rows)


def test_what_rules_meet_in_another_column_alone_is_whole() -> None:
    cut = ByPivot.of(last_clique(compiled(PIVOTED["closure"]), [(1, 2)])[0], 4)
    assert (cut.sources, cut.whole) == ({"arc", "p"}, {"arc"})
    text = """far(A, B) <- arc(A, C), arc(C, B). p(A, B) <- far(A, B).
        p(A, B) <- p(A, C), arc(C, B), A > 3. query p(A, B)."""
    cut = ByPivot.of(last_clique(compiled(text), [(1, 2)])[0], 4)
    assert (cut.sources, cut.whole) == ({"far", "p"}, {"arc"})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("p(A, B) <- arc(A, B). p(A, B) <- p(A, C), p(C, B). query p(A, B).", "carried unchanged"),
        ("p(X, B) <- arc(A, B), X = A + 1. p(A, B) <- p(A, C), arc(C, B). query p(A, B).",
         "rule 1 computes the column"),
        ("p(A, B) <- arc(A, B), limit(3). p(A, B) <- p(A, C), arc(C, B). query p(A, B).",
         "rule 1 sorts or limits"),
    ],
)  # fmt: skip
def test_what_cannot_be_parted_says_why(text: str, reason: str) -> None:
    (clique,) = compiled(text).cliques
    assert reason in (why_not_pivoted(clique) or "")
    assert [c.strategy for c in choices(clique, 3_000_000)] == ["meshed", "frame"]
    assert reason in choices(clique, 3_000_000)[0].reason


@pytest.mark.parametrize(
    ("facts", "tasks", "first"),
    [(3_000_000, 8, "single"), (3_000_000, 9, "meshed"), (50_000_001, 2, "meshed")],
)
def test_few_tasks_do_not_exchange_facts(facts: int, tasks: int, first: str) -> None:
    text = "p(A, B) <- arc(A, B). p(A, B) <- p(A, C), p(C, B). query p(A, B)."
    (clique,) = compiled(text).cliques
    assert choices(clique, facts, tasks=tasks)[0].strategy == first
    (clique,) = compiled(PIVOTED["closure"]).cliques
    assert choices(clique, facts, tasks=tasks)[0].strategy == "pivoted"


@pytest.mark.parametrize(
    ("facts", "forced", "order"),
    [
        (1_000, None, "single pivoted meshed frame"),
        (2_000_001, None, "pivoted meshed frame"),
        (None, None, "pivoted meshed frame"),
        (1_000, "meshed", "meshed single pivoted frame"),
        (1_000, "frame", "frame single pivoted meshed"),
    ],
)
def test_the_order_in_which_strategies_are_tried(
    facts: int | None, forced: str | None, order: str
) -> None:
    (clique,) = compiled(PIVOTED["closure"]).cliques
    assert " ".join(c.strategy for c in choices(clique, facts, forced)) == order


VALUES = {
    pa.int8(): st.integers(-128, 127),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(),
    pa.float32(): st.floats(width=32),
    pa.string(): st.text(st.characters(codec="utf-8"), max_size=4),
    pa.bool_(): st.booleans(),
    pa.timestamp("us"): st.datetimes(dt.datetime(1, 1, 1)),
    pa.date32(): st.dates(),
    pa.decimal128(38, 18): st.decimals(-(10**19), 10**19, places=18),
    pa.binary(): st.binary(max_size=4),
}


@pytest.mark.parametrize("type", VALUES, ids=str)
@given(data=st.data(), parts=st.integers(1, 5))
def test_every_value_falls_to_one_part(type: pa.DataType, data: Any, parts: int) -> None:
    values = pa.array(data.draw(st.lists(VALUES[type])), type)
    falls = np.array([falls_to(values, part, parts, narrow=False) for part in range(parts)])
    assert (falls.sum(axis=0) == 1).all()
    chunked = pa.chunked_array([values, values])
    twice = np.array([falls_to(chunked, part, parts, narrow=False) for part in range(parts)])
    assert (twice == np.hstack([falls, falls])).all()


@given(st.integers(-(2**53), 2**53), st.integers(2, 5))
def test_equal_numbers_fall_to_the_same_part(number: int, parts: int) -> None:
    falls = [
        [bool(falls_to(pa.array([value], type), p, parts, narrow=False)[0]) for p in range(parts)]
        for value, type in (
            (number, pa.int64()),
            (float(number), pa.float64()),
            (Decimal(number), pa.decimal128(38, 18)),
        )
    ]
    assert falls[0] == falls[1] == falls[2]


@pytest.mark.parametrize(("one", "other"), [(0.0, -0.0), (math.nan, -math.nan)])
def test_doubles_that_count_as_equal(one: float, other: float) -> None:
    for part in range(7):
        falls = falls_to(pa.array([one, other]), part, 7, narrow=False)
        assert falls[0] == falls[1]


def test_parts_are_even() -> None:
    counts = [falls_to(pa.array(range(10_000)), part, 4, narrow=False).sum() for part in range(4)]
    assert min(counts) > 2_300
