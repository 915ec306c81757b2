"""The published queries give what their DeALS twins give, on every engine."""

import warnings

import pytest
from tests.programs.compare import difference
from tests.rasql.twins import TWINS, Twin

import caladan


@pytest.mark.parametrize("engine", ["reference", "embedded", "spark"])
@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.name)
def test_twin(twin: Twin, engine: str, request: pytest.FixtureRequest) -> None:
    db = caladan.connect(request.getfixturevalue("spark") if engine == "spark" else engine)
    for name, data in twin.data.items():
        db.add(name, data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", caladan.CaladanWarning)
        found = db.sql(twin.sql, twin.params)
        expected = db.run(twin.deals, twin.params).answer
    different = difference(found.rows(), expected.rows(), ordered=False)
    assert different is None, different
