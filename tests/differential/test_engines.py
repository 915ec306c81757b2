"""Spark against the reference engine, on random programs, which it gets in another order."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.differential.running import FEW, check_same, run
from tests.differential.test_metamorphic import disordered
from tests.strategies.random_programs import RandomProgram, random_programs

from caladan.language.deals import unparse


@pytest.mark.parametrize("strategy", ["frame", "single", "pivoted"])
@FEW
@given(given=random_programs(layers=6), random=st.randoms(use_true_random=False))
def test_spark_agrees_with_reference(
    spark: Any, strategy: str, given: RandomProgram, random: Random
) -> None:
    """Neither order nor names matter to the reference engine, so they must not matter here."""
    wanted = run("reference", unparse(given.program), given.facts)
    check_same(run(spark, *disordered(given, random), strategy), wanted, given)
