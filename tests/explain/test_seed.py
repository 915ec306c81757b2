"""The transitive closure, printed as BigDatalog's own documents print it."""

from textwrap import dedent

import pytest

from caladan import explain
from caladan.language import parse
from caladan.pipeline import compile_program

PROGRAM = """\
database({arc(A: integer, B: integer)}).

tc(A,B) <- arc(A,B).
tc(A,B) <- tc(A,C), arc(C,B).
query tc(A, B).
"""

EXPECTED = {
    "relations": """\
        == Relation Definition ==

        database({arc(A: integer, B: integer)}).
        """,
    "rules": """\
        == Datalog Rules ==

        tc(A,B) <- arc(A,B).
        tc(A,B) <- tc(A,C), arc(C,B).
        query tc(A, B).
        """,
    "pcg": """\
        == PCG Tree ==

        PCGOrNode(tc_ff_ff(A, B), #Children: 1, predicateType: DERIVED, isRecursive: Yes)
         Clique 1
          Parents:
           1) PCGOrNode(tc_ff_ff(A, C), #Children: 1, predicateType: DERIVED, isRecursive: Yes)
           2) PCGOrNode(tc_ff_ff(A, B), #Children: 1, predicateType: DERIVED, isRecursive: Yes)
          Clique Predicates:
          1) CliquePredicate(tc_ff, binding: ff, #ExitRules: 1, #RecursiveRules: 1)
           Exit Rules:
            PCGAndNode(tc_ff_ff(A, B), rule#: 1, #Children: 1, predicateType: DERIVED)
             PCGOrNode(arc_ff_ff(A, B), #Children: 1, predicateType: BASE)
              arc(A:integer, B:integer)
           Recursive Rules:
            PCGAndNode(tc_ff_ff(A, B), rule#: 2, #Children: 2, predicateType: DERIVED)
             PCGOrNode(tc_ff_ff(A, C), #Children: 1, predicateType: DERIVED, isRecursive: Yes)
             PCGOrNode(arc_bf_bf(C, B), #Children: 1, predicateType: BASE)
              arc(A:integer, B:integer)
         End Clique 1
        """,
    "operators": """\
        == Operator Program ==

        0: tc(Var_1, Var_2) <RECURSIVE_CLIQUE>
        Exit Rules:
         1: arc(A, B) <BASE_RELATION>
        Recursive Rules:
         1: (A, B) <PROJECT>
          2: (0.C = 1.A) <JOIN>
           3: tc(A, C) <RECURSIVE_RELATION>
           3: arc(A, B) <BASE_RELATION>
        """,
    "logical": """\
        == Unresolved Logical Plan ==

        'Goal tc(A, B)
        +- 'Recursion tc, [Driver], [A,B]
           :- 'Project [arc1.A, arc1.B]
           :  +- 'SubqueryAlias arc1
           :     +- 'UnresolvedRelation arc
           +- 'Project [tc1.A, arc2.B]
              +- 'Join Inner, (tc1.C = arc2.A)
                 :- 'SubqueryAlias tc1
                 :  +- LinearRecursiveRelation tc, [A, C]
                 +- 'SubqueryAlias arc2
                    +- 'UnresolvedRelation arc
        """,
    "optimized": """\
        == Optimized Logical Plan ==

        Goal tc(A, B)
        +- Recursion tc, [Driver], [A,B]
           :- Relation arc [A,B]
           +- Project [A, B]
              +- Join Inner, (C = A)
                 :- LinearRecursiveRelation tc, [A, C]
                 +- Relation arc [A,B]
        """,
}


@pytest.mark.parametrize("stage", EXPECTED)
def test_stage(stage: str) -> None:
    compiled = compile_program(parse(PROGRAM), {}, {})
    assert explain.text(compiled, stage) == dedent(EXPECTED[stage]).strip()


def test_the_example_is_this_program() -> None:
    from pathlib import Path

    example = Path(__file__).parents[2] / "examples" / "tc.dl"
    assert parse(example.read_text("utf-8")) == parse(PROGRAM)
