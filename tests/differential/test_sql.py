"""The reference engine against DuckDB, which shares no code and no idea with it."""

from hypothesis import given
from tests.differential import sql
from tests.differential.running import check_same, run
from tests.strategies.random_programs import RandomProgram, random_programs

from caladan.language.deals import unparse


@given(random_programs(kinds=sql.SQL_KINDS))
def test_reference_agrees_with_sql(given: RandomProgram) -> None:
    check_same(run("reference", unparse(given.program), given.facts), sql.answers(given), given)
