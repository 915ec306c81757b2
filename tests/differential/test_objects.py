"""Programs over objects: both engines agree, and so does the same program over plain numbers."""

from dataclasses import dataclass
from enum import Enum

from hypothesis import given, strategies as st

import caladan as cal


@dataclass(frozen=True)
class Point:
    x: int
    y: int


class Colour(Enum):
    RED = 1
    BLUE = 2


VALUES = st.one_of(
    st.integers(-2, 2),
    st.booleans(),
    st.sampled_from([0.0, 1.0, 2.5, float("nan")]),
    st.sampled_from(["", "a", "1"]),
    st.tuples(st.integers(0, 1), st.integers(0, 1)),
    st.frozensets(st.integers(0, 2), max_size=2),
    st.builds(Point, st.integers(0, 1), st.integers(0, 1)),
    st.sampled_from(Colour),
)
EDGES = st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=14)

PROGRAM = """
    tc(X, Y) <- arc(X, Y).
    tc(X, Y) <- tc(X, Z), tc(Z, Y).
    node(X) <- arc(X, _).
    node(X) <- arc(_, X).
    apart(X, Y) <- node(X), node(Y), X ~= Y, ~tc(X, Y).
    reach(X, count<Y>) <- tc(X, Y).
    near(X, mmin<D>) <- node(X), X = $start, D = 0.
    near(Y, mmin<D>) <- near(X, C), arc(X, Y), D = C + 1.
    nodes(countd<X>) <- node(X).
    loop(X) <- tc(X, X).
    from(Y) <- tc($start, Y).
"""
DECLARED = "database({arc(A: object, B: object)}).\n"


def run(engine: str, text: str, arcs: list[tuple[object, ...]], start: object) -> dict[str, list]:
    with cal.connect(engine) as db:
        db.add("arc", arcs)
        out = db.run(text + PROGRAM, {"start": start})
        return {name: [tuple(map(repr, row)) for row in out[name].rows()] for name in out}


@given(arcs=EDGES, start=VALUES)
def test_engines_agree_and_numbers_do_the_same(
    arcs: list[tuple[object, object]], start: object
) -> None:
    found = run("embedded", DECLARED, arcs, start)
    assert found == run("reference", DECLARED, arcs, start)

    # The same with a number for each value, in order of appearance, column after column.
    known: dict[object, int] = {}
    for value in (*(a for a, _ in arcs), *(b for _, b in arcs), start):
        known.setdefault(_key(value), len(known))
    first = dict[int, str]()
    for value in (*(a for a, _ in arcs), *(b for _, b in arcs), start):
        first.setdefault(known[_key(value)], repr(value))
    numbered = [(known[_key(a)], known[_key(b)]) for a, b in arcs]
    plain = run("reference", "", numbered, known[_key(start)])  # type: ignore[arg-type]
    counted = {"reach": (0,), "near": (0,), "nodes": ()}
    for name, rows in plain.items():
        places = counted.get(name, (0, 1))
        expected = [
            tuple(first[int(cell)] if i in places else cell for i, cell in enumerate(row))
            for row in rows
        ]
        assert found[name] == expected, name


def _key(value: object) -> object:
    """What Python's equality goes by; a NaN equals itself here."""
    return "not a number" if isinstance(value, float) and value != value else value
