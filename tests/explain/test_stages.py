"""Every stage, on programs that have something to show in it."""

import doctest
from html.parser import HTMLParser

import pytest
from tests.explain.golden import Case, read
from tests.programs.corpus import Folder, folders

import caladan
from caladan import explain
from caladan.explain import terms
from caladan.language import parse
from caladan.pipeline import (
    PASSES,
    STAGES,
    Compiled,
    Request,
    Stage,
    compile_program,
    compile_until,
    order_cliques,
)
from caladan.program import Column, Program, Type
from caladan.program.diagnostics import CaladanError
from caladan.program.objects import Objects
from caladan.session import inputs

CLOSURE = """
database({arc(A: integer, B: integer)}).
tc(A, B) <- arc(A, B).
tc(A, B) <- tc(A, C), arc(C, B).
query tc(A, B).
"""


def compiled(text: str) -> Compiled:
    return compile_program(parse(text), {}, {})


def test_there_are_cases() -> None:
    assert len(read()) > 5


@pytest.mark.parametrize("case", read(), ids=lambda case: case.title)
def test_golden(case: Case) -> None:
    assert case.printed() == case.stages


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_compilation_goes_as_far_as_a_stage_asks(stage: Stage) -> None:
    found = compile_until(stage, Request(parse(CLOSURE), {}, {}))
    assert len(found.made) == PASSES.index(stage.after) - PASSES.index(order_cliques) + 1
    assert found.checked.goals
    if stage.after is PASSES[-1]:
        assert found.delta.cliques
    else:
        with pytest.raises(AssertionError, match="DeltaProgram"):
            assert found.delta


def test_all_stages_come_in_order() -> None:
    text = explain.text(compiled(CLOSURE))
    places = [text.index(f"== {stage.heading} ==") for stage in STAGES]
    assert places == sorted(places)


def test_an_unknown_stage_names_the_stages() -> None:
    with pytest.raises(CaladanError) as caught:
        explain.text(compiled(CLOSURE), "bytecode")
    assert str(caught.value) == (
        "error[C050]: there is no stage `bytecode`\n"
        "  help: the stages are all, relations, rules, pcg, operators, logical, analyzed, "
        "optimized, delta, plan, spark, sql, aggregates"
    )


def test_a_stage_slightly_wrong() -> None:
    with pytest.raises(CaladanError, match="did you mean `operators`"):
        explain.text(compiled(CLOSURE), "operator")


def test_the_reference_engine_is_naive() -> None:
    text = explain.text(compiled(CLOSURE), "plan", explain.Setting("reference"))
    assert "Naive evaluation" in text
    assert "1) tc: until nothing is new" in text


def test_the_embedded_engine_runs_delta_rules() -> None:
    text = explain.text(compiled(CLOSURE), "plan", explain.Setting("embedded"))
    assert "δtc(A, B) <- δtc(A, C), arc(C, B)." in text
    assert "guard: arc has facts" in text
    assert text.endswith("Arrangements: arc by (A, B)")


def test_a_decision_of_the_embedded_engine_has_its_alternatives() -> None:
    text = explain.text(compiled(CLOSURE), "plan", explain.Setting("embedded"))
    assert "strategy, decided by the facts:\n    condensed: if its rules read" in text
    assert "rounds: if they read fewer" in text
    assert "held as, decided by the facts:\n    ranges: by solver condensed" in text
    assert "1) scan δtc(A, C)\n    2) look up arc(C, B) by A" in text


def test_groups_that_still_change_are_indexed_by_what_is_looked_up() -> None:
    program = """database({arc(A: integer, B: integer, D: integer)}).
    sp(A, B, mmin<D>) <- arc(A, B, D).
    sp(A, B, mmin<D + E>) <- sp(A, C, D), sp(C, B, E). query sp(A, B, D)."""
    text = explain.text(compiled(program), "plan", explain.Setting("embedded"))
    assert text.endswith("Arrangements: sp by (A), sp by (B)")
    assert "    best-first: if its rules read at least 1,000 facts" in text


def test_linear_and_non_linear_recursion() -> None:
    text = explain.text(compiled(CLOSURE), "plan")
    assert ":- LinearRecursiveRelation [A#2,C#3](tc)" in text
    double = CLOSURE.replace("arc(C, B)", "tc(C, B)")
    for stage, times in {"logical": 2, "analyzed": 2, "optimized": 4, "plan": 4}.items():
        text = explain.text(compiled(double), stage)
        assert text.count("NonLinearRecursiveRelation") == times


def test_the_number_of_partitions() -> None:
    text = explain.text(compiled(CLOSURE), "plan", explain.Setting(tasks=3))
    assert "ExitExchange tc, hashpartitioning(A#0, 3)" in text
    assert "RecExchange tc, false, hashpartitioning(A#2, 3)" in text


def test_spark_plans_are_printed_as_they_come() -> None:
    plans = [("tc, round 1", "== Physical Plan ==\nScan\n"), ("goal tc", "LocalTableScan")]
    text = explain.text(compiled(CLOSURE), "spark", explain.Setting(spark_plans=plans))
    assert text == (
        "== Spark Plans ==\n\n-- tc, round 1\n== Physical Plan ==\nScan\n\n"
        "-- goal tc\nLocalTableScan"
    )


def test_without_spark_there_are_no_spark_plans() -> None:
    text = explain.text(compiled(CLOSURE), "spark")
    assert "need the spark engine and the program's data" in text


def test_columns_of_data_may_have_any_name() -> None:
    catalog = {"sale": (Column("order id", Type.LONG), Column("Größe", Type.STRING))}
    program = parse("big(X) <- sale(X, 'XL'). query big(X).")
    text = explain.text(compile_program(program, catalog, {}))
    assert "database({sale(order id: long, Größe: string)})." in text
    assert "sale(order id, Größe) AS (X, 'XL') <BASE_RELATION>" in text


def test_parameters_may_be_infinite() -> None:
    program = parse("database({p(X: double)}). q(X) <- p(X), X < {top}. query q(X).")
    text = explain.text(compile_program(program, {}, {"top": float("inf")}))
    assert "X < {top}" in text
    assert "X < inf" in text


def test_rules_keep_their_layout() -> None:
    text = explain.text(
        compiled(
            "database({p(X: integer)}).\n  q(X) <- p(X),  % why\n          X > 1.\nquery q(X)."
        ),
        "rules",
    )
    assert text == ("== Datalog Rules ==\n\nq(X) <- p(X),  % why\n        X > 1.\nquery q(X).")


def test_many_facts_are_counted() -> None:
    facts = "\n".join(f"n({i})." for i in range(1000))
    text = explain.text(compiled(f"{facts}\nquery n(X)."))
    assert "n(9).\n% and 990 more facts of n\nquery n(X)." in text
    assert "1,000 facts in the program" in text
    assert "and 997 more facts of n" in text


def test_a_program_made_in_python_is_printed() -> None:
    written = parse(CLOSURE)
    bare = Program(written.relations, written.rules, written.goals)
    assert "tc(A, B) <- tc(A, C), arc(C, B)." in explain.text(compile_program(bare, {}, {}))


def test_html_is_whole_and_escaped() -> None:
    program = compiled("q(X) <- p(X, '<script>alert(1)</script>'). p(1, '&'). query q(X).")
    page = explain.html(program, title="<plan>")
    seen = _Reader()
    seen.feed(page)
    seen.close()
    assert seen.tags.count("details") == len(STAGES)
    assert "script" not in seen.tags
    assert not {"link", "img", "iframe"} & set(seen.tags)
    assert all(value.startswith("#") for value in seen.references)
    assert "<script>alert(1)</script>" in seen.text
    assert seen.open == []


class _Reader(HTMLParser):
    """Notes tags, references and text, and that every tag is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.references: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag != "meta":
            self.open.append(tag)
        self.references += [v for k, v in attrs if k in ("href", "src") and v]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_doctests() -> None:
    result = doctest.testmod(terms)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: folder.name)
def test_every_program_is_explained(folder: Folder) -> None:
    program = compile_program(folder.program, {}, inputs.values(folder.params, Objects()))
    for engine in ("spark", "reference", "embedded"):
        text = explain.text(program, setting=explain.Setting(engine))
        assert all(f"== {stage.heading} ==" in text for stage in STAGES)
        assert "\n\n\n" not in text
    for name in program.delta.relations:
        assert name in text


def test_rules_made_of_a_part_of_a_rule_are_shown_as_rules() -> None:
    with caladan.connect("reference") as db:
        shown = db.explain("q(1, 2). p(X, N) <- q(X, _), N = sum Y : { q(X, Y) }.", "rules")
    assert "p_sum(X, sum<Y>) <- q(X, Y)." in shown
    assert "\nsum Y" not in shown
