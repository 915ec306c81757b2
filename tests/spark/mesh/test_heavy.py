"""Values that are too frequent for one task: found before the first round, and split."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from tests.spark.mesh.together import run_parts

from caladan.engines.embedded.engine import EmbeddedEngine
from caladan.engines.embedded.tables import LoadedTable
from caladan.engines.spark.mesh.placement import Copy, Heavy, RuleBody, placement
from caladan.engines.spark.mesh.shard import Shard
from caladan.engines.spark.mesh.shuffle import AsIs, RowBatch, field_copy
from caladan.engines.spark.mesh.skew import SkewLimits, histogram
from caladan.fixpoint.limits import Limits
from caladan.language import parse
from caladan.pipeline import compile_program
from caladan.program import thresholds
from caladan.program.events import Listener
from caladan.program.options import Options
from caladan.rules.program import DeltaProgram

NEVER = SkewLimits(0)
OFTEN = SkewLimits(share=0.3, least=4)

ARC = "database({arc(A: integer, B: integer)}).\n"
PROGRAMS = {
    "closure": "p(A, B) <- arc(A, B). p(A, B) <- p(A, C), p(C, B). query p(A, B).",
    "both by the same column": (
        "p(A, B) <- arc(A, B). q(A, B) <- p(C, A), p(C, B). p(A, B) <- q(A, C), arc(C, B).\n"
        "query p(A, B)."
    ),
    "three atoms": "p(A, B) <- arc(A, B). p(A, D) <- p(A, B), p(B, C), p(B, D). query p(A, B).",
    "reached": "p(A) <- arc(A, _), A = 0. p(B) <- p(A), arc(A, B). query p(A).",
    "labels": (
        "p(A, mmin<C>) <- arc(A, _), C = A. p(B, mmin<C>) <- p(A, C), arc(A, B). query p(A, B)."
    ),
    "pairs of labels": (
        "p(A, B, mmin<C>) <- arc(A, B), C = 1.\n"
        "p(A, B, mmin<C>) <- p(A, D, E), p(D, B, F), C = E + F. query p(A, B, C)."
    ),
    "counts": (
        "p(A, mcount<A>) <- arc(A, _), A = 0. p(B, mcount<A>) <- p(A, C), arc(A, B), A < B.\n"
        "query p(A, B)."
    ),
    "mutual": (
        "p(A) <- arc(A, _), A = 0. q(B) <- p(A), arc(A, B). p(B) <- q(A), arc(A, B), arc(B, _).\n"
        "query p(A)."
    ),
}


def compiled(rules: str) -> DeltaProgram:
    return compile_program(parse(ARC + rules), {}, {}, demand=False).delta


def table(arcs: Sequence[tuple[int, int]]) -> dict[str, pa.Table]:
    columns = {"A": [a for a, _ in arcs], "B": [b for _, b in arcs]}
    return {"arc": pa.table({name: pa.array(c, pa.int32()) for name, c in columns.items()})}


def facts(parts: Sequence[Shard], name: str = "p") -> list[tuple[object, ...]]:
    return sorted(
        tuple(row.values()) for part in parts for row in part.owned(name).arrow().to_pylist()
    )


def solutions(parts: Sequence[Shard]) -> list[int]:
    return [sum(count for count, _ in part.events.solutions.values()) for part in parts]


@st.composite
def hub_graphs(draw: st.DrawFn) -> list[tuple[int, int]]:
    """A few arcs anywhere, and a node or two with very many."""
    node = st.integers(0, 14)
    arcs = draw(st.lists(st.tuples(node, node), max_size=12))
    for hub in draw(st.lists(st.integers(0, 3), min_size=1, max_size=2)):
        arcs += [(i, hub) for i in range(draw(st.integers(0, 12)))]
        arcs += [(hub, i) for i in range(draw(st.integers(4, 12)))]
    return arcs


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@given(arcs=hub_graphs(), tasks=st.integers(2, 4), local=st.booleans())
def test_the_answer_is_that_of_the_embedded_engine(
    program: str, arcs: list[tuple[int, int]], tasks: int, local: bool
) -> None:
    delta, tables = compiled(program), table(arcs)
    columns = delta.relations["arc"].columns
    store = {"arc": LoadedTable(columns, tables["arc"])}
    wanted = EmbeddedEngine().run(delta, store, Options(), Listener())["p"].arrow()
    parts, _ = run_parts(delta, tables, tasks, local=local, splitting=OFTEN)
    assert facts(parts) == sorted(tuple(row.values()) for row in wanted.to_pylist())


STAR = [(i, 0) for i in range(1, 200)] + [(0, i) for i in range(200, 400)]
BURST = [(0, i) for i in range(1, 2000)]
SPARSE = [(i, i + 1) for i in range(300)]


@pytest.mark.parametrize(
    ("name", "arcs"),
    [("closure", STAR), ("pairs of labels", STAR), ("reached", BURST), ("labels", BURST)],
)
def test_a_hub_is_no_longer_the_work_of_one_task(name: str, arcs: list[tuple[int, int]]) -> None:
    tables, delta = table(arcs), compiled(PROGRAMS[name])
    with thresholds.override(shape=1 << 40):  # or one task would do it
        before, _ = run_parts(delta, tables, 3, splitting=NEVER)
        after, _ = run_parts(delta, tables, 3, splitting=SkewLimits(least=64))
    assert facts(after) == facts(before)
    assert [part.heavy for part in before] == [0] * 3
    assert [part.heavy for part in after] == [1] * 3
    # Everything is still derived once: what two tasks derive costs twice.
    assert sum(solutions(after)) == sum(solutions(before))
    assert max(solutions(before)) > 0.6 * sum(solutions(before))
    assert max(solutions(after)) < 0.45 * sum(solutions(after))


@pytest.mark.parametrize("name", PROGRAMS)
def test_without_a_hub_nothing_is_split(name: str) -> None:
    part = Shard(
        compiled(PROGRAMS[name]), table(SPARSE), 0, 3, Limits(Options()), SkewLimits(least=4)
    )
    assert part.heavy == 0
    assert all(copy.heavy is Heavy.TOGETHER for copy in part.placement.others)


def test_one_task_has_nothing_to_split() -> None:
    part = Shard(compiled(PROGRAMS["closure"]), table(STAR), 0, 1, Limits(Options()), OFTEN)
    assert part.heavy == 0


# ── How it is done ───────────────────────────────────────────────────────────────────────────────


def test_of_one_atom_heavy_values_are_spread_and_of_the_other_everywhere() -> None:
    delta = compiled(PROGRAMS["closure"])
    (clique,) = delta.cliques
    rules = [RuleBody.of(rule) for rule in clique.delta_rules]
    found = placement(rules, {"p": delta.relations["p"]}, lambda _, __: True)
    reads = [{found.read(rule, scan).heavy for scan in rule.recursive} for rule in rules]
    assert reads == [{Heavy.SPREAD, Heavy.EVERYWHERE}] * 2
    assert found.owners["p"].heavy is Heavy.SPREAD
    assert [copy.heavy for copy in found.others] == [Heavy.EVERYWHERE]


def test_a_fact_that_fans_out_has_a_copy_for_heavy_values_alone() -> None:
    part = Shard(compiled(PROGRAMS["labels"]), table(STAR), 0, 2, Limits(Options()), OFTEN)
    assert part.placement.owners == {"p": Copy("p", (0,))}
    assert part.placement.others == (Copy("p", (0,), Heavy.ALONE),)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 50)), min_size=1),
    st.sets(st.integers(0, 5)),
    st.sampled_from(Heavy),
    st.integers(1, 4),
)
def test_where_rows_go(
    rows: list[tuple[int, int]], heavy: set[int], mode: Heavy, tasks: int
) -> None:
    fields = tuple(np.array(column, np.uint32) for column in zip(*rows, strict=True))
    values = np.array(sorted(heavy), np.uint32)
    codecs = [AsIs(np.uint32)] * 2
    parts = field_copy(codecs, (0,), (0, 1), mode, values).split(RowBatch(len(rows), fields), tasks)
    found = [
        [] if part is None else list(zip(*(f.tolist() for f in part.fields), strict=True))
        for part in parts
    ]
    light = [row for row in rows if row[0] not in heavy]
    special = [row for row in rows if row[0] in heavy]
    hashed = field_copy(codecs, (0,), (0, 1), Heavy.TOGETHER, values)
    for task, (here, plain) in enumerate(
        zip(found, hashed.split(RowBatch(len(rows), fields), tasks), strict=True)
    ):
        kept = [row for row in here if row[0] not in heavy]
        home = [] if plain is None else list(zip(*(f.tolist() for f in plain.fields), strict=True))
        wanted = [row for row in home if row in light or mode is Heavy.TOGETHER]
        if mode is Heavy.TOGETHER:
            assert sorted(here) == sorted(home)
        elif mode is Heavy.ALONE:
            assert kept == [], task
        else:
            assert sorted(kept) == sorted(wanted), task
    gone = sorted(row for here in found for row in here if row[0] in heavy)
    times = tasks if mode in (Heavy.EVERYWHERE, Heavy.ALONE) else 1
    assert gone == sorted(special * times)


def test_what_counts_as_heavy() -> None:
    column = np.array([7] * 50 + [8] * 30 + list(range(100, 120)), np.uint32)
    counted = histogram([column])
    assert counted.heavy(SkewLimits(share=0.5, least=1), 2).tolist() == [7, 8]
    assert counted.heavy(SkewLimits(share=0.9, least=1), 2).tolist() == [7]
    assert counted.heavy(SkewLimits(share=0.5, least=40), 2).tolist() == [7]
    assert (counted * counted).heavy(SkewLimits(share=1.0, least=1), 2).tolist() == [7]
    assert histogram([]).heavy(SkewLimits(least=1), 2).tolist() == []


def test_a_long_column_is_sampled() -> None:
    column = np.arange(3 << 20, dtype=np.uint32)
    column[::5] = 3
    found = histogram([column, column]).heavy(SkewLimits(share=0.2), 2)
    assert found.tolist() == [3]


def test_domains_of_computed_values_split_too() -> None:
    """The words of given values are the same in every task, also where more are to come."""
    program = compiled(
        "p(A, B) <- arc(A, B). p(A, B) <- p(A, C), p(C, D), B = D + 0, B < 400. query p(A, B)."
    )
    before, _ = run_parts(program, table(STAR), 3, splitting=NEVER)
    after, _ = run_parts(program, table(STAR), 3, splitting=SkewLimits(least=64))
    assert after[0].heavy == 1
    assert facts(after) == facts(before)
