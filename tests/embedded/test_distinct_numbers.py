"""Numbers of groups, each once."""

import numpy as np
from hypothesis import given, strategies as st

from caladan.fixpoint.groups import distinct_numbers


@given(st.lists(st.integers(0, 5000), max_size=60), st.sampled_from([5001, 1_000_000]))
def test_as_a_set_would_have_them(numbers: list[int], below: int) -> None:
    """Few numbers among many are sorted, many among few are ticked off."""
    found = distinct_numbers(np.array(numbers, np.int64), below)
    assert found.tolist() == sorted(set(numbers))
