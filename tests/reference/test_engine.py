"""The reference engine: limits, interruption, failures of arithmetic, events, tables."""

from typing import Any

import pytest

import caladan
from caladan.engines.interface import EngineStopped
from caladan.engines.reference import ReferenceEngine
from caladan.engines.reference.engine import ReferenceTable
from caladan.language import parse
from caladan.pipeline import compile_program
from caladan.program import Column, Type
from caladan.program.diagnostics import CaladanError
from caladan.program.events import (
    CliqueDone,
    CliqueStarted,
    Event,
    Listener,
    RoundDone,
    RuleDone,
    RunStarted,
)
from caladan.program.options import Options

COUNTING = "n(0). n(Y) <- n(X), Y = X + 1. query n(X)."


def run(
    text: str, options: Options | None = None, events: Listener | None = None
) -> dict[str, set[tuple[Any, ...]]]:
    """The derived relations of a program without data."""
    compiled = compile_program(parse(text), {}, {})
    tables = ReferenceEngine().evaluate(
        compiled.written, compiled.totals, {}, options or Options(), events or Listener()
    )
    return {name: rows_of(table) for name, table in tables.items()}


def rows_of(table: object) -> set[tuple[Any, ...]]:
    assert isinstance(table, ReferenceTable)
    return set(table.rows)


class Interrupting(Listener):
    """Presses Ctrl-C in the third round."""

    def tell(self, event: Event) -> None:
        if isinstance(event, RoundDone) and event.number == 3:
            raise KeyboardInterrupt


class Recording(Listener):
    """Notes what it is told, without times."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def tell(self, event: Event) -> None:
        match event:
            case RunStarted():
                self.told.append(("run", event.engine, event.cliques))
            case CliqueStarted():
                relations = tuple(event.relations)
                self.told.append(("clique", relations, event.recursive, event.strategy))
            case RuleDone():
                self.told.append(("rule", event.rule, event.facts))
            case RoundDone():
                self.told.append(("round", event.number, event.new, event.total))
            case CliqueDone():
                self.told.append(("done", tuple(event.relations), event.rounds, event.facts))
            case _:
                pass


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Options(max_rounds=5), "5 rounds were not enough to finish `n`"),
        (Options(max_facts=5), "more than 5 facts were derived, while evaluating `n`"),
        (Options(timeout=0.2), "0.2 seconds were not enough to finish `n`"),
    ],
)
def test_a_limit_leaves_what_was_derived(options: Options, message: str) -> None:
    with pytest.raises(EngineStopped) as stopped:
        run(COUNTING, options)
    (diagnostic,) = stopped.value.diagnostics
    assert diagnostic.code == "C042"
    assert diagnostic.message == message
    assert diagnostic.exit_code == 3
    assert {(0,), (1,), (2,), (3,)} <= rows_of(stopped.value.store["n"])


def test_enough_rounds_are_no_limit() -> None:
    text = "n(0). n(Y) <- n(X), X < 3, Y = X + 1. query n(X)."
    rounds = 5  # four that find a fact each, and one that finds nothing new
    assert len(run(text, Options(max_rounds=rounds))["n"]) == 4
    with pytest.raises(EngineStopped):
        run(text, Options(max_rounds=rounds - 1))


def test_an_interruption_leaves_what_was_derived() -> None:
    with pytest.raises(EngineStopped) as stopped:
        run(COUNTING, events=Interrupting())
    (diagnostic,) = stopped.value.diagnostics
    assert diagnostic.code == "C043"
    assert diagnostic.message == "interrupted while evaluating `n`"
    assert diagnostic.exit_code == 130
    assert rows_of(stopped.value.store["n"]) == {(0,), (1,), (2,)}


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("q(X / Y) <- p(X, Y)", "C040"),
        ("q(Z) <- p(X, Y), Z = X mod Y", "C040"),
        ("q(X) <- p(X, Y), X div Y > 0", "C040"),
        ("q(sum<X div Y>) <- p(X, Y)", "C040"),
        ("q(X * 9223372036854775807) <- p(X, _), X > 1", "C041"),
        ("q(sum<Z>) <- p(X, _), Z = 9223372036854775807 - X + X", "C041"),
    ],
)
def test_arithmetic_that_fails_names_the_rule(rule: str, code: str) -> None:
    with pytest.raises(CaladanError) as failed:
        run(f"p(1, 1). p(4, 0). p(5, 2).\n{rule}.\nquery q(X).")
    (diagnostic,) = failed.value.diagnostics
    assert diagnostic.code == code
    assert "in rule 4, which derives `q`" in diagnostic.message
    assert f"2 | {rule}." in diagnostic.render()


def test_a_failure_names_what_users_know_and_not_the_part_that_is_asked_for() -> None:
    text = "arc(1, 2). t(X, Y) <- arc(X, Y). t(X, Y * 9) <- t(X, Y), arc(X, _). query t(1, Y)."
    with pytest.raises(CaladanError, match="in rule 3, which derives `t`"):
        run(text)


def test_a_test_keeps_a_division_from_failing_wherever_it_stands() -> None:
    facts = "p(1, 1). p(4, 0)."
    for body in ("Y ~= 0, Z = X div Y, p(X, Y)", "p(X, Y), Z = X div Y, Y ~= 0"):
        assert run(f"{facts} q(Z) <- {body}. query q(Z).")["q"] == {(1,)}


def test_a_sum_past_64_bits_on_the_way_is_no_overflow() -> None:
    text = "p(9223372036854775807). p(1). p(-1). q(sum<X>) <- p(X). query q(X)."
    assert run(text)["q"] == {(9223372036854775807,)}


def test_sums_in_recursion_replace_their_values() -> None:
    text = """
        arc(1, 2). arc(1, 3). arc(2, 3). arc(2, 4). arc(3, 4). arc(4, 5).
        paths(Y, msum<N>) <- Y = 1, N = 1.
        paths(Y, msum<N>) <- paths(X, N), arc(X, Y).
        query paths(Y, N)."""
    assert run(text)["paths"] == {(1, 1), (2, 1), (3, 2), (4, 3), (5, 3)}


def test_sums_that_keep_growing_meet_the_limit() -> None:
    text = """
        paths(Y, msum<N>) <- Y = 1, N = 1.
        paths(Y, msum<(X, N)>) <- paths(X, N), Y = 1.
        query paths(Y, N)."""
    with pytest.raises(EngineStopped):
        run(text, Options(max_rounds=50))


def test_events() -> None:
    listener = Recording()
    run("a(1). a(2). b(X) <- a(X). b(Y) <- b(X), Y = X + 1, Y < 4. query b(X).", events=listener)
    assert listener.told == [
        ("run", "reference", 2),
        ("clique", ("a",), False, "naive"),
        ("round", 1, 2, 2),
        ("done", ("a",), 1, 2),
        ("clique", ("b",), True, "naive"),
        ("rule", 3, 2),
        ("rule", 4, 0),
        ("round", 1, 2, 2),
        ("rule", 4, 2),
        ("round", 2, 1, 3),
        ("rule", 4, 0),
        ("round", 3, 0, 3),
        ("done", ("b",), 3, 3),
    ]


def test_tables_are_sorted_and_typed() -> None:
    columns = (Column("Name", Type.STRING), Column("Age", Type.BYTE))
    table = ReferenceTable(columns, frozenset({("b", 2), ("a", 7), ("a", 1)}))
    assert table.arrow().to_pylist() == [
        {"Name": "a", "Age": 1},
        {"Name": "a", "Age": 7},
        {"Name": "b", "Age": 2},
    ]
    assert str(table.arrow().schema.field("Age").type) == "int8"
    assert table.arrow(limit=2).num_rows == 2
    assert ReferenceTable((), frozenset({()})).arrow().num_rows == 1


def test_tables_become_dataframes(spark: Any) -> None:
    table = ReferenceTable((Column("X", Type.LONG),), frozenset({(1,), (2,)}))
    assert {row.X for row in table.spark(spark).collect()} == {1, 2}


def test_bad_rows_are_set_aside_if_asked_for(tmp_path: Any) -> None:
    (tmp_path / "p.csv").write_text("1\nx\n3\n")
    db = caladan.connect("reference")
    db.add("p", tmp_path / "p.csv")
    out = db.run("database({p(X: integer)}). query p(X).", permissive=True)
    assert out.answer.rows() == [(1,), (3,)]


def test_a_branch_that_is_not_taken_does_not_tell_solutions_apart() -> None:
    """X stands in one branch of the alternatives, and else only where the `if` does not go."""
    text = """
        e(1). e(2). f(1). f(2). g(7).
        p(count<_>) <- e(Y), (f(Y) ; g(X)), if(Y > 0 then f(Y) else g(X)).
        query p(N)."""
    assert run(text)["p"] == {(2,)}


def test_a_variable_may_look_like_a_numbered_wildcard() -> None:
    """`_` of an atom was evaluated as `_1`, which a rule may have for something else."""
    with caladan.connect("reference") as db:
        rule = "q(1, 2). q(1, 5). p(X, _1) <- q(X, _), _1 = 7."
        assert db.run(f"{rule} query p(X, Y).").answer.rows() == [(1, 7)]
        total = "p(X, S) <- q(X, _), S = sum Y : { q(X, Y) }."
        assert db.run(f"q(1, 2). q(1, 5). {total} query p(X, S).").answer.rows() == [(1, 7)]
