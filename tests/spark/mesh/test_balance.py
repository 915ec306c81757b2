"""Values that become too frequent only among derived facts: found between rounds, and split."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from tests.differential.running import check_same, run
from tests.programs.answers import answered
from tests.programs.corpus import Folder
from tests.spark.mesh.engine import PartsEngine
from tests.spark.mesh.recursive import RECURSIVE
from tests.spark.mesh.together import run_parts
from tests.strategies.random_programs import RandomProgram, random_programs

import caladan
from caladan.columns.domains import OffsetDomain
from caladan.columns.relation import StoredRelation
from caladan.engines.embedded.engine import EmbeddedEngine
from caladan.engines.embedded.tables import LoadedTable
from caladan.engines.spark.mesh import rules as rules_module
from caladan.engines.spark.mesh.balance import Balance, JoinEstimate, estimate_work
from caladan.engines.spark.mesh.messages import TaskStatus, Verdict
from caladan.engines.spark.mesh.shard import Shard
from caladan.engines.spark.mesh.skew import HeavyValues, SkewLimits
from caladan.fixpoint.limits import Limits
from caladan.language import parse
from caladan.language.deals import unparse
from caladan.pipeline import compile_program
from caladan.program.events import Listener
from caladan.program.kinds import Kind
from caladan.program.options import Options
from caladan.rules.body import Version
from caladan.rules.program import DeltaProgram
from caladan.session.session import Session

NEVER = SkewLimits(0)
OFTEN = SkewLimits(share=1e-6, least=1, moving=0)  # whatever there is to do is placed anew first
SOMETIMES = SkewLimits(share=0.3, least=2, moving=0.2)

ARC = "database({arc(A: integer, B: integer), label(A: integer, B: integer)}).\n"
PROGRAMS = {
    "a number that rules compute": (
        "p(A, B) <- arc(A, B). at(A, H) <- p(A, B), H = B - B. p(A, B) <- at(A, H), at(B, H).\n"
        "query p(A, B)."
    ),
    "a label of many": (
        "p(A, B) <- arc(A, B). at(A, H) <- p(A, B), label(B, H).\n"
        "p(A, B) <- at(A, H), at(B, H), A < B. query p(A, B)."
    ),
    "beside a relation of one column": (
        "p(A, B) <- arc(A, B). has(H) <- p(_, B), label(B, H). at(A, H) <- p(A, B), label(B, H).\n"
        "p(A, H) <- has(H), at(A, H). query p(A, B)."
    ),
    "three atoms": (
        "p(A, B) <- arc(A, B). at(A, H) <- p(A, B), label(B, H).\n"
        "p(A, C) <- at(A, H), at(B, H), at(C, H), A < B, B < C. query p(A, B)."
    ),
    "all that one node reaches": (
        "p(A, B) <- arc(A, B), A = 0. p(A, B) <- p(A, C), arc(C, B). query p(A, B)."
    ),
    "best values": (
        "p(A, B, mmin<C>) <- arc(A, B), C = B. at(A, H, mmin<C>) <- p(A, B, C), label(B, H).\n"
        "p(A, B, mmin<C>) <- at(A, H, E), at(B, H, F), A < B, C = E + F. query p(A, B, C)."
    ),
    "counts": (
        "p(A, B, mcount<C>) <- arc(A, B), A < B, C = B.\n"
        "p(A, B, mcount<D>) <- p(A, D, C), arc(D, B), D < B. query p(A, B, C)."
    ),
    "sums": (
        "p(A, B, msum<C>) <- arc(A, B), A < B, C = 1.\n"
        "p(A, B, msum<C>) <- p(A, D, C), arc(D, B), D < B. query p(A, B, C)."
    ),
    "sums of witnesses that fall": (
        "p(A, msum<(B, C)>) <- arc(A, B), A < B, C = 2 - B.\n"
        "p(A, msum<(B, C * H)>) <- arc(A, B), label(B, H), A < B, p(B, C). query p(A, C)."
    ),
}  # fmt: skip


def compiled(rules: str) -> DeltaProgram:
    return compile_program(parse(ARC + rules), {}, {}, demand=False).delta


def pairs(rows: Sequence[tuple[int, int]]) -> pa.Table:
    columns = {"A": [a for a, _ in rows], "B": [b for _, b in rows]}
    return pa.table({name: pa.array(c, pa.int32()) for name, c in columns.items()})


def tables(
    delta: DeltaProgram, arcs: Sequence[tuple[int, int]], hubs: int = 1
) -> dict[str, pa.Table]:
    """What a program reads; every node has a label, of which there are few."""
    nodes = sorted({node for arc in arcs for node in arc})
    found = {"arc": pairs(arcs), "label": pairs([(node, 5000 + node % hubs) for node in nodes])}
    return {name: table for name, table in found.items() if name in delta.relations}


def facts(parts: Sequence[Shard], name: str = "p") -> list[tuple[object, ...]]:
    return sorted(
        tuple(row.values()) for part in parts for row in part.owned(name).arrow().to_pylist()
    )


def solutions(parts: Sequence[Shard]) -> list[int]:
    return [sum(count for count, _ in part.events.solutions.values()) for part in parts]


@contextmanager
def nothing_known_before() -> Iterator[None]:
    """No value is heavy before the first round, so that all are found later."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            rules_module, "heavy_values", lambda inputs, *_: HeavyValues({}, inputs.domain)
        )
        yield


# ── The same answers ─────────────────────────────────────────────────────────────────────────────


node = st.integers(0, 12)


@pytest.mark.parametrize("name", PROGRAMS)
@settings(max_examples=20)
@given(
    arcs=st.lists(st.tuples(node, node), min_size=3, max_size=30),
    hubs=st.integers(1, 3),
    tasks=st.integers(2, 4),
    local=st.booleans(),
    splitting=st.sampled_from([OFTEN, SOMETIMES]),
)
def test_the_answer_is_that_of_the_embedded_engine(
    name: str,
    arcs: list[tuple[int, int]],
    hubs: int,
    tasks: int,
    local: bool,
    splitting: SkewLimits,
) -> None:
    delta = compiled(PROGRAMS[name])
    data = tables(delta, arcs, hubs)
    store = {each: LoadedTable(delta.relations[each].columns, data[each]) for each in data}
    wanted = EmbeddedEngine().run(delta, store, Options(), Listener())["p"].arrow()
    with nothing_known_before():
        parts, _ = run_parts(delta, data, tasks, local=local, splitting=splitting)
    assert facts(parts) == sorted(tuple(row.values()) for row in wanted.to_pylist())


@pytest.mark.parametrize("folder", RECURSIVE, ids=lambda folder: folder.name)
def test_program(folder: Folder) -> None:
    """Every kind of relation there is: sets, best values, sums, texts that rules make."""
    db = Session(PartsEngine(3, splitting=OFTEN))
    with nothing_known_before():
        answered(db, folder, is_explained=False)


@settings(max_examples=30)
@given(random_programs(layers=6), st.integers(2, 4), st.booleans())
def test_random_programs(given: RandomProgram, tasks: int, local: bool) -> None:
    text = unparse(given.program)
    db = Session(PartsEngine(tasks, local=local, splitting=OFTEN))
    for name, rows in given.facts.items():
        db.add(name, rows)
    with warnings.catch_warnings(), nothing_known_before():
        warnings.simplefilter("ignore", caladan.CaladanWarning)
        found = [answer.rows() for answer in db.run(text).answers]
    check_same(found, run("reference", text, given.facts), given)


# ── What it is for ───────────────────────────────────────────────────────────────────────────────

SPREAD_OUT = [(i, i + 1000) for i in range(300)]
LONG = [(i, i + 1) for i in range(200)]


@pytest.mark.parametrize(
    ("name", "arcs"),
    [
        ("a number that rules compute", SPREAD_OUT),
        ("a label of many", SPREAD_OUT),
        ("best values", [(i, i + 100) for i in range(100)]),
        ("all that one node reaches", [(0, i) for i in range(1, 100)] + LONG),
    ],
)
def test_a_derived_hub_is_no_longer_the_work_of_one_task(
    name: str, arcs: list[tuple[int, int]]
) -> None:
    delta = compiled(PROGRAMS[name])
    data = tables(delta, arcs)
    before, _ = run_parts(delta, data, 3, splitting=NEVER)
    with nothing_known_before():
        after, _ = run_parts(delta, data, 3, splitting=SkewLimits(least=64, moving=0.1))
    assert facts(after) == facts(before)
    assert {part.given.heavy.count for part in after} == {0}
    assert {part.heavy for part in after} == {after[0].heavy}
    assert 1 <= after[0].heavy <= 10
    assert max(solutions(before)) > 0.6 * sum(solutions(before))
    assert max(solutions(after)) < 0.45 * sum(solutions(after))


@pytest.mark.parametrize("name", ["a label of many", "counts", "all that one node reaches"])
def test_where_all_are_equally_busy_nothing_moves(name: str) -> None:
    delta = compiled(PROGRAMS[name])
    data = tables(delta, [(i, i) for i in range(200)], 200)
    parts, _ = run_parts(delta, data, 2, splitting=SkewLimits(least=16))
    assert [part.heavy for part in parts] == [0, 0]


def test_limits_hold_as_they_do_without() -> None:
    delta = compiled(PROGRAMS["a label of many"])
    data = tables(delta, SPREAD_OUT)
    with nothing_known_before():
        _, endings = run_parts(delta, data, 3, Options(max_facts=2000), splitting=OFTEN)
    assert all("more than 2000 facts" in str(ending.reached) for ending in endings)


# ── How it is decided ────────────────────────────────────────────────────────────────────────────


class Told:
    """Peers that say what this task says: all have the same to do."""

    def __init__(self) -> None:
        self.exchanges = 0

    def exchange(self, messages: Sequence[Sequence[object] | None]) -> list[bytearray | None]:
        self.exchanges += 1
        return [None, bytearray(b"".join(messages[1] or ()))]  # pyright: ignore[reportArgumentType]


def balance(exchange: Told, splitting: SkewLimits) -> Balance:
    delta = compiled(PROGRAMS["a label of many"])
    data = tables(delta, SPREAD_OUT)
    part = Shard(delta, data, 0, 2, Limits(Options()), splitting)
    return Balance(part, exchange, lambda: None)


def standings(*found: int, rows: int = 0, held: int = 100) -> list[TaskStatus]:
    return [TaskStatus(rows, 0, held, each, Verdict.GO_ON) for each in found]


def test_tasks_look_before_a_round_that_may_be_large() -> None:
    each = balance(Told(), SkewLimits())
    assert not each.is_due(standings(10, 10, rows=100))  # 200 rows find 40,000 at most
    assert each.is_due(standings(10, 10, rows=200))
    assert not balance(Told(), SkewLimits(0)).is_due(standings(10**9, 0, rows=10**9))


def test_tasks_do_not_look_before_every_round_of_many() -> None:
    each = balance(Told(), SkewLimits())
    looks = 0
    for number in range(1000):
        if each.is_due(standings(number, number, rows=10, held=10**6)):
            looks += 1
            each.look(failed=False)
    assert 16 <= looks <= 20


def test_tasks_look_where_one_of_them_has_had_more_to_do_for_long() -> None:
    each = balance(Told(), SkewLimits(least=1000))
    assert not each.is_due(standings(900, 100))  # 400 beyond the mean
    assert not each.is_due(standings(1700, 200))  # and 350
    assert each.is_due(standings(2500, 300))  # and 350


def test_a_task_that_has_failed_has_the_others_go_on_unsplit() -> None:
    told = Told()
    assert not balance(told, OFTEN).look(failed=True)
    assert told.exchanges == 1  # the others wait for its answer


def test_where_all_have_as_much_to_do_nothing_is_exchanged_but_that() -> None:
    told = Told()
    assert not balance(told, SkewLimits(least=1)).look(failed=False)
    assert told.exchanges == 1


@given(
    st.lists(st.tuples(node, st.integers(0, 3)), max_size=30),
    st.lists(st.tuples(node, st.integers(0, 3)), max_size=30),
    st.booleans(),
)
def test_what_there_is_to_do(
    new: list[tuple[int, int]], others: list[tuple[int, int]], indexed: bool
) -> None:
    """Each new fact finds all others that have its value."""
    domain = OffsetDomain(Kind.INTEGER, 0, 16, grows=False)
    seed, met = (StoredRelation([domain, domain]) for _ in range(2))
    for relation, rows in ((seed, new), (met, others)):
        columns = [np.array([row[c] for row in rows], np.uint32) for c in range(2)]
        relation.add(columns, len(rows))
        relation.flip()
    if indexed:
        met.index((1,), Version.NEW)
    values, work = estimate_work(JoinEstimate(1, domain, seed, ((met, 1),)))
    wanted = {
        value: sum(b == value for _, b in set(new)) * sum(b == value for _, b in set(others))
        for _, value in new
    }
    assert dict(zip(values.tolist(), work.tolist(), strict=True)) == wanted


def test_of_many_new_facts_some_are_looked_at() -> None:
    domain = OffsetDomain(Kind.INTEGER, 0, 1 << 20, grows=False)
    seed = StoredRelation([domain, domain])
    rows = np.arange(1 << 19, dtype=np.uint32)
    seed.add([rows, np.where(rows % 2, np.uint32(7), rows)], len(rows))
    seed.flip()
    values, work = estimate_work(JoinEstimate(1, domain, seed, ()))
    assert len(values) <= 1 << 16
    assert int(work[values == 7].sum()) == pytest.approx(1 << 18, rel=0.01)
    assert int(work.sum()) == pytest.approx(1 << 19, rel=0.01)
