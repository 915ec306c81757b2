"""Random thresholds: every path of the embedded engine, and every pair of them, over a few facts.

A threshold is left as it is, or put where small inputs are below it, above it, or on either side as
a run goes on. What a test shrinks to are the changes that matter.
"""

from dataclasses import fields
from typing import Any, Final

from hypothesis import strategies as st

from caladan.program.thresholds import Thresholds

NEVER: Final = 1 << 40
"""More than anything a test counts: the path beyond a threshold so high is not taken."""

LOADING: Final = frozenset({"worth_native", "worth_numba", "worth_loading", "small_rounds_cold"})
"""These are about loading kernels, which happens once in a process."""


def values(name: str) -> st.SearchStrategy[Any]:
    """Values for a threshold: the least, small ones, those that some inputs reach, the greatest."""
    (field,) = (each for each in fields(Thresholds) if each.name == name)
    least, most = field.metadata["least"], field.metadata["most"]
    if isinstance(field.default, float):
        return st.sampled_from([0.0, 0.01, 100.0])
    most = NEVER if most is None else most
    reached = sorted({min(most, least + (1 << bits)) for bits in range(10)})
    return st.one_of(
        st.integers(least, min(least + 8, most)),
        st.sampled_from(reached),
        st.sampled_from(sorted({least, most})),
    )


@st.composite
def random_thresholds(draw: st.DrawFn) -> Thresholds:
    """The defaults with some changes; half of the time every other one is changed."""
    names = [each.name for each in fields(Thresholds) if each.name not in LOADING]
    if draw(st.booleans()):
        chosen = [name for name in names if draw(st.booleans())]
    else:
        chosen = draw(st.lists(st.sampled_from(names), unique=True, max_size=len(names)))
    return Thresholds(**{name: draw(values(name)) for name in chosen})
