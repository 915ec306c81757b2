"""The pictures of join.md, drawn from real searches: python docs/how-it-works/figures/join.py

Every number in them is counted by the search itself, so they come out the same every time; a test
draws them again and compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import Any, Final

import numpy as np

from caladan.columns.domains import OffsetDomain
from caladan.columns.ranks import Kind
from caladan.columns.relation import StoredRelation
from caladan.join.adaptive import Search, solve
from caladan.join.constraints.atom import StoredAtom
from caladan.join.constraints.protocol import JoinConstraint
from caladan.join.estimates import GRADES
from caladan.join.frontier import Bindings
from caladan.join.search import Statistics
from caladan.rules.body import Version

HERE: Final = Path(__file__).parent
INK, PALE, GOOD, BAD = "#24303c", "#8a97a5", "#2f7d6b", "#c4623a"
STYLE: Final = (
    "text{font:13px system-ui,sans-serif;fill:#24303c}.s{font-size:11px;fill:#5b6875}"
    ".b{font-weight:600}"
)


def main() -> None:
    """Write all pictures."""
    for name, draw in PICTURES.items():
        (HERE / name).write_text(draw(), encoding="utf-8")


# ── What is searched ─────────────────────────────────────────────────────────────────────────────


NUMBERS: Final = OffsetDomain(Kind.INTEGER, 0, 1 << 20, grows=False)


def stored(columns: Any) -> StoredRelation:
    """A relation of small numbers."""
    words = [np.array(column, np.uint32) for column in columns]
    relation = StoredRelation([NUMBERS] * len(words))
    relation.add(words, len(words[0]))
    relation.flip()
    relation.commit()
    return relation


def atom(relation: StoredRelation, variables: tuple[str, ...]) -> StoredAtom:
    """An atom of a body."""
    return StoredAtom(relation, Version.FULL, variables)


def star(n: int) -> tuple[np.ndarray, np.ndarray]:
    """A hub, n spokes there and back, and a rim: 3n edges, about 3n triangles, n² paths."""
    i = np.arange(1, n + 1)
    hub = np.zeros(n, np.int64)
    return np.concatenate([hub, i, i]), np.concatenate([i, hub, i + 1])


def triangle(edges: StoredRelation) -> list[JoinConstraint]:
    """e(x, y), e(y, z), e(z, x)."""
    return [atom(edges, pair) for pair in (("x", "y"), ("y", "z"), ("z", "x"))]


def counted(constraints: list[JoinConstraint], wanted: str, grade: str = "paul") -> Statistics:
    """The statistics of a search to its end."""
    statistics = Statistics()
    for _ in solve(constraints, wanted.split(), grade=grade, statistics=statistics):
        pass
    return statistics


# ── Pictures ─────────────────────────────────────────────────────────────────────────────────────

PEOPLE: Final = ["Paul", "Alia", "Jessica", "Leto", "Duncan", "Gurney", "Chani", "Liet", "Stilgar"]
CITIES: Final = ["Arrakeen", "Caladan", "Tabr"]
LIVES: Final = [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1), (5, 1), (6, 2), (7, 2), (8, 2)]
PARENT: Final = [(0, 2), (0, 3), (1, 2), (1, 3), (6, 7)]


class Traced(Search):
    """A search that keeps every frontier it meets."""

    def __init__(self, constraints: list[JoinConstraint], wanted: list[str]) -> None:
        super().__init__(constraints, wanted, Bindings(1, {}), "paul", None, None)
        self.met: list[dict[str, int]] = []

    def _descend(
        self, frontier: Bindings, bound: frozenset[str], unbound: frozenset[str]
    ) -> Iterator[Bindings]:
        names = [name for name in frontier.columns if name in bound]
        rows = zip(*(frontier.columns[name].tolist() for name in names), strict=True)
        self.met += [dict(zip(names, row, strict=True)) for row in rows] if names else [{}]
        yield from super()._descend(frontier, bound, unbound)


def tree() -> str:
    """The bindings of the seed's example, as the search met them."""
    lives = stored(zip(*LIVES, strict=True))
    parent = stored(zip(*PARENT, strict=True))
    body: list[JoinConstraint] = [
        atom(lives, ("person", "city")),
        atom(parent, ("person", "parent")),
        atom(lives, ("parent", "city")),
    ]
    search = Traced(body, ["person", "parent", "city"])
    for _ in search.run(64, 64):
        pass
    levels = [[b for b in search.met if len(b) == size] for size in range(4)]
    picture = Picture(760, 330)
    place: dict[frozenset[tuple[str, int]], tuple[float, float]] = {}
    for depth, bindings in enumerate(levels):
        for number, binding in enumerate(bindings):
            x, y = 760 * (number + 0.5) / len(bindings), 34 + 84 * depth
            above = [b for b in levels[depth - 1] if b.items() <= binding.items()] if depth else []
            for parent_binding in above[:1]:
                px, py = place[frozenset(parent_binding.items())]
                picture.line(px, py + 14, x, y - 14, PALE)
            place[frozenset(binding.items())] = (x, y)
            new = {v: w for v, w in binding.items() if not above or v not in above[0]}
            label = ", ".join(
                f"{v} = {(CITIES if v == 'city' else PEOPLE)[w]}" for v, w in new.items()
            )
            picture.box(x, y, label or "nothing bound", GOOD if depth == 3 else INK)
    picture.text(10, 322, "Each level binds one variable; the last one has the answers.", "s")
    return picture.svg()


def growth() -> str:
    """Pairs a binary join makes, and proposals of the search, on stars of growing size."""
    sizes = [100, 300, 1_000, 3_000, 10_000, 30_000, 100_000]
    edges = [star(n) for n in sizes]
    pairs = [_paths(*e) for e in edges]
    proposals = [counted(triangle(stored(e)), "x y z").proposed.total() for e in edges]
    picture = Picture(640, 360)
    x = _log_scale(3 * sizes[0], 3 * sizes[-1], 70, 610)
    y = _log_scale(100, 3e10, 310, 30)
    for power in range(2, 11, 2):
        picture.line(70, y(10**power), 610, y(10**power), "#e3e7eb")
        picture.text(62, y(10**power) + 4, f"10{_superscript(power)}", "s", "end")
    for n in sizes[::2]:
        picture.text(x(3 * n), 330, f"{3 * n:,}", "s", "middle")
    picture.text(340, 352, "edges", "s", "middle")
    for label, counts, colour in (
        ("pairs that e(x, y) ⋈ e(y, z) makes", pairs, BAD),
        ("proposals of the search", proposals, GOOD),
    ):
        points = [(x(3 * n), y(count)) for n, count in zip(sizes, counts, strict=True)]
        picture.path(points, colour)
        picture.text(points[-1][0] - 8, points[-1][1] - 10, label, "b", "end")
    return picture.svg()


def grades() -> str:
    """Proposals of each grade on a skewed body, confirmed and wasted."""
    random = np.random.default_rng(7)
    skewed = (random.pareto(0.8, (2, 20_000)) * 20).astype(np.int64) % 3_000
    few = random.integers(0, 3_000, (2, 1_500))
    r, s = stored(skewed), stored(few)
    body: list[JoinConstraint] = [
        atom(r, ("a", "b")), atom(s, ("b", "c")), atom(r, ("c", "d")), atom(s, ("b", "d")),
    ]  # fmt: skip
    path: list[JoinConstraint] = [atom(r, ("a", "b")), atom(s, ("b", "c")), atom(s, ("c", "d"))]
    picture = Picture(700, 330)
    for block, (title, constraints) in enumerate(
        (("a → b → c → d", path), ("the same, and b → d: a cycle", body))
    ):
        left = 20 + 350 * block
        found = {grade: counted(constraints, "a b c d", grade) for grade in GRADES}
        most = max(s.proposed.total() for s in found.values())
        picture.text(left, 24, title, "b")
        for number, (grade, statistics) in enumerate(found.items()):
            top = 44 + 62 * number
            good = 300 * statistics.confirmed.total() / most
            wasted = 300 * statistics.wasted.total() / most
            picture.text(left, top + 12, grade.capitalize())
            picture.bar(left, top + 18, good, GOOD)
            picture.bar(left + good, top + 18, wasted, BAD)
            said = (
                f"{statistics.confirmed.total():,} confirmed, {statistics.wasted.total():,} wasted"
            )
            picture.text(left, top + 50, said, "s")
    picture.text(20, 318, "Proposals of a search, added up over its variables.", "s")
    return picture.svg()


def accumulation() -> str:
    """Words touched by three ways to join 200 bindings with a relation of four runs."""
    random = np.random.default_rng(3)
    sizes = (64_000, 16_000, 4_000, 1_000)
    runs = [
        np.unique(np.stack([random.integers(0, 8_000, n), random.integers(0, 500, n)]), axis=1)
        for n in sizes
    ]
    keys = np.repeat(random.integers(0, 8_000, 20), 10)  # ten bindings a key
    counts = [np.bincount(run[0], minlength=8_000) for run in runs]
    ways = (
        ("add up the runs, then join", sum(run.shape[1] for run in runs)),
        ("join each run, then add up", sum(int(each[keys].sum()) for each in counts)),
        (
            "find keys, restrict, add up, then cross",
            sum(int(each[np.unique(keys)].sum()) for each in counts),
        ),
    )
    picture = Picture(640, 210)
    widest = np.log10(ways[0][1])
    for number, (label, words) in enumerate(ways):
        top = 14 + 60 * number
        picture.text(20, top + 12, label)
        picture.bar(
            20, top + 18, 480 * float(np.log10(words) / widest), GOOD if number == 2 else BAD
        )
        picture.text(510, top + 33, f"{words:,} words added up", "s")
    picture.text(
        20,
        202,
        "200 bindings with 20 keys, four runs of 64,000 to 1,000 facts; bars by logarithm.",
        "s",
    )
    return picture.svg()


PICTURES: Final[dict[str, Callable[[], str]]] = {
    "join-tree.svg": tree,
    "join-growth.svg": growth,
    "join-grades.svg": grades,
    "join-accumulation.svg": accumulation,
}


# ── Drawing ──────────────────────────────────────────────────────────────────────────────────────


class Picture:
    """A few shapes of SVG."""

    def __init__(self, width: int, height: int) -> None:
        self._head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}"><style>{STYLE}</style>'
            f'<rect width="{width}" height="{height}" fill="#fff"/>'
        )
        self._shapes: list[str] = []

    def line(self, x1: float, y1: float, x2: float, y2: float, colour: str) -> None:
        self._shapes.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'
        )

    def path(self, points: list[tuple[float, float]], colour: str) -> None:
        through = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._shapes.append(
            f'<polyline points="{through}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        self._shapes += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points
        ]

    def bar(self, x: float, y: float, width: float, colour: str) -> None:
        self._shapes.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="18" fill="{colour}"/>'
        )

    def box(self, x: float, y: float, label: str, colour: str) -> None:
        width = 7.2 * len(label) + 14
        self._shapes.append(
            f'<rect x="{x - width / 2:.1f}" y="{y - 14:.1f}" width="{width:.1f}" height="28" '
            f'rx="6" fill="#fff" stroke="{colour}"/>'
        )
        self.text(x, y + 5, label, anchor="middle")

    def text(self, x: float, y: float, said: str, kind: str = "", anchor: str = "start") -> None:
        place = f'x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}"'
        self._shapes.append(f"<text {place}>{escape(said)}</text>")

    def svg(self) -> str:
        """The whole picture."""
        return "\n".join((self._head, *self._shapes, "</svg>")) + "\n"


def _paths(sources: np.ndarray, targets: np.ndarray) -> int:
    """How many pairs (x, y), (y, z) there are."""
    out = np.bincount(sources, minlength=int(targets.max()) + 1)
    return int(out[targets].sum())


def _log_scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    span = np.log10(high / low)
    return lambda value: start + (end - start) * float(np.log10(value / low) / span)


def _superscript(number: int) -> str:
    return "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(number))


if __name__ == "__main__":
    main()
