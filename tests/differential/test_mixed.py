"""The embedded engine against the reference engine, on programs of wide and mixed relations."""

from hypothesis import given
from tests.differential.running import run
from tests.programs.compare import difference
from tests.strategies.mixed_programs import mixed_programs
from tests.strategies.recursions import Recursion


@given(given=mixed_programs())
def test_embedded_agrees_with_reference(given: Recursion) -> None:
    wanted = run("reference", given.text, given.facts)
    for got, right in zip(run("embedded", given.text, given.facts), wanted, strict=True):
        different = difference(got, right)
        assert different is None, different
