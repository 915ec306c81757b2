"""Bodies: made once from the checked rule, and read as they are."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from tests.analysis.support import compiled

import caladan
from caladan.analysis.core import CoreRule
from caladan.program import thresholds
from caladan.rules import body as bodies, logical
from caladan.rules.body import Absence, Body, BodyBinding, Scan, Version
from caladan.rules.operators import Extend, Join, tree

PACKAGE = Path(caladan.__file__).parent
ARC = "database({arc(A: integer, B: integer), w(A: integer, D: double)}). "
CLOSURE = ARC + "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B). query tc(A, B)."
TWICE = ARC + "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), tc(C, B). query tc(A, B)."


def only(text: str) -> Body:
    """The body of the one rule of a program."""
    (rule,) = compiled(ARC + text).delta.rules
    return rule.body


@pytest.mark.parametrize(
    ("program", "planned"),
    [(CLOSURE, {(0, 0): 1, (1, 0): 1}), (TWICE, {(0, 0): 1, (1, 0): 1, (1, 1): 1})],
)
def test_a_run_plans_every_rule_once(
    program: str, planned: dict[tuple[int, int | None], int]
) -> None:
    """One schedule for each atom that a rule starts from, whoever asks."""
    calls: Counter[tuple[int, int | None]] = Counter()
    known = bodies.body_in_order

    def counted(rule: CoreRule, scans: Sequence[Scan], *rest: Any) -> Body:
        new = (i for i, scan in enumerate(scans) if scan.version is Version.DELTA)
        calls[rule.place, next(new, 0)] += 1
        return known(rule, scans, *rest)

    db = caladan.connect("embedded")
    db.add("arc", [(1, 2), (2, 3), (3, 4)])
    with (
        patch.object(bodies, "body_in_order", counted),
        patch.object(logical, "body_in_order", counted),
    ):
        assert db.run(program)["tc"].count() == 6
    assert calls == planned


def test_a_shape_plans_its_links_once() -> None:
    calls: list[CoreRule] = []
    known = bodies.body_in_order

    def counted(rule: CoreRule, *rest: Any) -> Body:
        calls.append(rule)
        return known(rule, *rest)

    db = caladan.connect("embedded")
    db.add("arc", [(1, 2), (2, 3), (3, 4)])
    with (
        thresholds.override(shape=0),
        patch.object(bodies, "body_in_order", counted),
        patch.object(logical, "body_in_order", counted),
    ):
        assert db.run(CLOSURE)["tc"].count() == 6
    assert [rule.place for rule in calls] == [0, 1, 1]  # two rules, and the steps of the closure


def test_parts_stand_in_an_order_in_which_each_can_be_evaluated() -> None:
    body = only("p(A, E) <- arc(A, B), ~arc(B, A), E = A + B, E > 5.")
    assert [type(part).__name__ for part in body.parts] == [
        "Scan",
        "Absence",
        "BodyBinding",
        "Comparison",
    ]
    assert [scan.version for scan in body.atoms] == [Version.FULL]
    assert [part for part in body.parts if isinstance(part, Absence)] == [
        Absence(scan) for scan in body.absents
    ]


def test_what_is_solved_is_told() -> None:
    written, turned = (
        only("p(A, E) <- arc(A, _), E = A + 1."),
        only("p(A, E) <- arc(A, _), A = E + 1."),
    )
    assert [binding.solved for binding in (*written.bindings, *turned.bindings)] == [False, True]


def test_columns_of_another_kind_of_number_get_a_variable_of_their_own() -> None:
    """What a goal demands of `p` are doubles; its first rule has integers there."""
    text = "p(A, B) <- arc(A, B). p(D, A) <- w(A, D). query p(1, B)."
    first, second = compiled(ARC + text).delta.rules
    own = first.body.separated
    assert own.separated is own
    (widening,) = [binding for binding in own.bindings if binding.widens]
    assert widening.variable == "A"
    assert {v for scan in own.atoms for v in scan.variables} == {"A", "B", *own.widened}
    assert len(own.widened) == 1
    assert second.body.separated is second.body


def test_atoms_are_replaced_in_their_places() -> None:
    body = only("p(A, C) <- arc(A, B), arc(B, C), A > 1.")
    other = body.with_atoms(body.atoms[::-1])
    assert other.atoms == body.atoms[::-1]
    assert other.conditions == body.conditions
    assert [type(p) for p in other.parts] == [type(p) for p in body.parts]


def test_a_tree_is_a_view_of_its_body() -> None:
    body = only("p(A, E) <- arc(A, B), arc(B, C), E = A + C.")
    plan = tree(body)
    assert isinstance(plan.input, Extend)
    assert plan.input.binding is body.bindings[0]
    join = plan.input.input
    assert isinstance(join, Join)
    assert join.parts == tuple(p for p in body.parts if not isinstance(p, BodyBinding))
    assert [p for p in join.parts if isinstance(p, Scan)] == list(body.atoms)


def test_trees_are_for_the_compiler_and_frames() -> None:
    readers = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if "caladan.rules.operators" in path.read_text(encoding="utf-8")
    }
    assert {each for each in readers if not each.startswith("explain/")} == {
        "pipeline.py",
        "engines/spark/frame/operators.py",
        "rules/delta.py",
        "rules/logical.py",
    }
