"""Every engine against the reference engine, on random programs."""

from typing import Any

from hypothesis import given
from tests.differential.running import FEW, check_same, run
from tests.strategies.random_programs import RandomProgram, random_programs

from caladan.language.deals import unparse


@FEW
@given(random_programs(layers=6))
def test_spark_agrees_with_reference(spark: Any, given: RandomProgram) -> None:
    text = unparse(given.program)
    check_same(run(spark, text, given.facts), run("reference", text, given.facts), given)
