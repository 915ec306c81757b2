"""Changes to a program that must not change its answers."""

import re
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import given, strategies as st
from tests.differential.running import FEW, check_same, run
from tests.differential.sql import matching
from tests.strategies.random_programs import Facts, RandomProgram, free, random_programs

from caladan.language.deals import unparse


def disordered(given: RandomProgram, random: Random) -> tuple[str, Facts]:
    """Rules, literals and facts in another order, facts given twice, variables renamed."""
    program = given.program
    rules = [
        replace(rule, body=tuple(random.sample(rule.body, len(rule.body))))
        for rule in random.sample(program.rules, len(program.rules))
    ]
    text = re.sub(r"\b([XYZUSTDEN])\b", r"Renamed\1", unparse(replace(program, rules=tuple(rules))))
    facts: Facts = {
        name: random.sample([*rows, *rows], 2 * len(rows)) for name, rows in given.facts.items()
    }
    return text, facts


def bound_goal(engine: Any, given: RandomProgram) -> None:
    """What a bound goal finds by demand is what remains of the whole relation."""
    for goal, whole in zip(given.program.goals, free(given.program).goals, strict=True):
        if goal == whole:
            continue
        alone = replace(given, program=replace(given.program, goals=(goal,)))
        (rows,) = run("reference", unparse(replace(given.program, goals=(whole,))), given.facts)
        check_same(run(engine, unparse(alone.program), given.facts), [matching(goal, rows)], alone)


@given(random_programs(), st.randoms(use_true_random=False))
def test_order_and_names_do_not_matter(given: RandomProgram, random: Random) -> None:
    wanted = run("reference", unparse(given.program), given.facts)
    check_same(run("reference", *disordered(given, random)), wanted, given)


@given(random_programs())
def test_demand_does_not_change_answers(given: RandomProgram) -> None:
    bound_goal("embedded", given)


@FEW
@given(random_programs())
def test_demand_does_not_change_answers_on_spark(spark: Any, given: RandomProgram) -> None:
    last = replace(given.program, goals=given.program.goals[-1:])
    bound_goal(spark, replace(given, program=last))
