"""Every run of the tests draws the same: new seeds belong to `make fuzz`."""

import re
from pathlib import Path

import pytest
from hypothesis import settings
from tests.conftest import SEED

TESTS = Path(__file__).parents[1]
UNSEEDED = re.compile(
    r"\bRandom\(\)|default_rng\(\)|use_true_random=True|SystemRandom|os\.urandom\("
    r"|derandomize=False"
)


def test_hypothesis_draws_the_same_examples_everywhere() -> None:
    assert settings.get_profile("fixed").derandomize
    assert settings.get_profile("fixed").database is None


def test_tests_are_shuffled_alike(request: pytest.FixtureRequest) -> None:
    seed = getattr(request.config.option, "randomly_seed", SEED)
    assert seed == SEED or f"--randomly-seed={seed}" in " ".join(
        request.config.invocation_params.args
    )


@pytest.mark.parametrize(
    "path", sorted(TESTS.rglob("*.py")), ids=lambda p: str(p.relative_to(TESTS))
)
def test_no_test_draws_without_a_seed(path: Path) -> None:
    if path != Path(__file__) and path.name != "fuzz.py":
        assert UNSEEDED.findall(path.read_text("utf-8")) == []
