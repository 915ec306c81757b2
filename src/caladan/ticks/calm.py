"""CALM: which parts of a program are monotone, and where order matters.

Consistency as logical monotonicity: what only ever adds facts gives the same in the end, in
whichever order messages arrive. A *point of order* takes back what it said when more comes: a
negation, an aggregate, a delete or an upsert. Where it lies downstream of something that arrives
from elsewhere, those involved have to agree that all has arrived: coordination is needed there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from caladan.language.bloom.schema import CollectionKind
from caladan.program import Aggregate
from caladan.ticks.monotone import not_monotone
from caladan.ticks.wiring import Wired


@dataclass(frozen=True, slots=True)
class PointOfOrder:
    """Where a rule may take back what it derived: what reads what, and why."""

    relation: str
    reads: str
    why: str
    group: str


@dataclass(frozen=True, slots=True)
class Calm:
    """The report: monotone relations, points of order, and those that need coordination."""

    monotone: tuple[str, ...]
    points: tuple[PointOfOrder, ...]
    coordinate: Mapping[PointOfOrder, tuple[str, ...]]

    @property
    def is_calm(self) -> bool:
        """Whether the program needs no coordination at all."""
        return not self.coordinate


_ARRIVING = (CollectionKind.CHANNEL, CollectionKind.INPUT, CollectionKind.STDIO)
_TAKES_BACK = {"delete": "facts are deleted", "upsert": "facts are replaced"}


def calm(wired: Wired) -> Calm:
    """The report of a program."""
    points = tuple(dict.fromkeys(_points(wired)))
    upstream = _upstream(wired)
    fed = {rule.head for rule in wired.rules}  # inputs of a module that another one feeds
    arriving = [n for n, s in wired.schemas.items() if s.kind in _ARRIVING and n not in fed]
    tainted = {point.relation for point in points}
    owners = {_owner(point.relation, wired) for point in points}
    monotone = tuple(
        name
        for name, schema in wired.schemas.items()
        if not schema.kind.is_element
        and schema.kind is not CollectionKind.CLOCK
        and not (upstream.get(name, {name}) | {name}) & (tainted | owners)
    )
    coordinate: dict[PointOfOrder, tuple[str, ...]] = {}
    for point in points:
        above = upstream.get(point.reads, set[str]()) | {point.reads}
        if sources := tuple(name for name in arriving if name in above):
            coordinate[point] = sources
    return Calm(monotone, points, coordinate)


def _points(wired: Wired) -> Iterable[PointOfOrder]:
    for rule in wired.rules:
        group = wired.groups.get(rule.number, "")
        for atom in rule.atoms:
            if atom.negated:
                yield PointOfOrder(rule.head, atom.relation, "negation", group)
        folds = [a.function for a in rule.arguments if isinstance(a, Aggregate)]
        for name in folds:
            yield PointOfOrder(rule.head, rule.atoms[0].relation, f"the aggregate {name}", group)
        for source, name in not_monotone(rule, wired.schemas):
            why = f"`{name}`, which is not known to be monotone"
            yield PointOfOrder(rule.head, source, why, group)
        later = wired.schemas[rule.head].later
        if later is not None and later[1] in _TAKES_BACK and rule.atoms:
            yield PointOfOrder(rule.head, rule.atoms[0].relation, _TAKES_BACK[later[1]], group)


def _owner(name: str, wired: Wired) -> str:
    """The collection that a relation brings facts to, itself if to no other."""
    later = wired.schemas[name].later
    return name if later is None else later[0]


def _upstream(wired: Wired) -> dict[str, set[str]]:
    """What each relation depends on, through this tick and later ones."""
    direct: dict[str, set[str]] = {}
    for rule in wired.rules:
        direct.setdefault(rule.head, set()).update(atom.relation for atom in rule.atoms)
    for name in list(direct):  # what a later tick brings belongs to the collection
        if (owner := _owner(name, wired)) != name:
            direct.setdefault(owner, set()).add(name)
    found: dict[str, set[str]] = {}
    for name in direct:
        seen: set[str] = set()
        work = [name]
        while work:
            for each in direct.get(work.pop(), ()):
                if each not in seen:
                    seen.add(each)
                    work.append(each)
        found[name] = seen
    return found


def report(wired: Wired) -> str:
    """The report as text."""
    found = calm(wired)
    lines = [f"monotone: {', '.join(found.monotone) or '(nothing)'}"]
    lines.append("points of order:" if found.points else "points of order: none")
    for point in found.points:
        where = f" in {point.group}" if point.group else ""
        head, read = _shown(point.relation, wired), _shown(point.reads, wired)
        lines.append(f"  {head} <- {read}: {point.why}{where}")
    if not found.coordinate:
        lines.append("coordination: none is needed; whatever the order, the outcome is the same")
        return "\n".join(lines)
    lines.append("coordination is needed:")
    for point, sources in found.coordinate.items():
        lines.append(
            f"  {_shown(point.relation, wired)} has to wait for all of {', '.join(sources)}: "
            f"{point.why}"
        )
    return "\n".join(lines)


def _shown(name: str, wired: Wired) -> str:
    """A relation as users know it: what an operator keeps goes by the collections it is for."""
    if not wired.schemas[name].kind.is_element or _owner(name, wired) != name:
        return name
    found: dict[str, None] = {}
    work, seen = [name], {name}
    while work:
        each = work.pop()
        for rule in wired.rules:
            if any(atom.relation == each for atom in rule.atoms) and rule.head not in seen:
                seen.add(rule.head)
                schema = wired.schemas[rule.head]
                if schema.kind.is_element and schema.later is None:
                    work.append(rule.head)
                else:
                    found[rule.head] = None
    return f"{name} (for {', '.join(found)})" if found else name
