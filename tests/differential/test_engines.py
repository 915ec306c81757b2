"""Every engine against the reference engine, on random programs."""

from typing import Any

import pytest
from hypothesis import given
from tests.differential.running import FEW, check_same, run
from tests.strategies.random_programs import RandomProgram, random_programs

from caladan.language.deals import unparse


@pytest.mark.parametrize("strategy", ["frame", "single", "pivoted"])
@FEW
@given(random_programs(layers=6))
def test_spark_agrees_with_reference(spark: Any, strategy: str, given: RandomProgram) -> None:
    text = unparse(given.program)
    wanted = run("reference", text, given.facts)
    check_same(run(spark, text, given.facts, strategy), wanted, given)
