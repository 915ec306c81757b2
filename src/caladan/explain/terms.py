"""Terms, facts and trees as explain writes them.

Like the DeALS printer, except that nothing is refused: the compiler makes names that no user could
write, and parameters may be infinite. `names` says what a variable is to be called; a variable that
is not in it keeps its own name.

Trees of lines are drawn the way Spark draws its plans: `:-` and `+-`. `RelationTrees` draws trees
below goals in which each relation is drawn in full once: where it is first needed, and only named
after that; one that is very deep down gets a tree of its own.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Generic, TypeVar

from caladan.analysis.core import CoreAtom, CoreGoal, RelationInfo, Term
from caladan.language.deals.printer import TermWriter, commas
from caladan.program import Atom, Comparison, Constant, Expression, Object, Value
from caladan.program.values import written

Names = Mapping[str, str]

_AS_WRITTEN: Final[Names] = MappingProxyType({})


def _writer(names: Names) -> TermWriter:
    return TermWriter(lambda node: names.get(node.name, node.name), value, opaque="opaque ")


def expressions(nodes: Iterable[Expression], names: Names = _AS_WRITTEN) -> str:
    """Several expressions with commas between them."""
    return _writer(names).expressions(nodes)


def expression(node: Expression, names: Names = _AS_WRITTEN) -> str:
    """An expression."""
    return _writer(names).expression(node)


def atom(node: Atom | CoreAtom) -> str:
    """`~arc(A, B)`."""
    return f"{'~' if node.negated else ''}{node.relation}({expressions(node.arguments)})"


def comparison(node: Comparison, names: Names = _AS_WRITTEN) -> str:
    """`left operator right`."""
    return _writer(names).comparison(node)


def comparisons(nodes: Iterable[Comparison], names: Names = _AS_WRITTEN) -> str:
    """Several comparisons with commas between them."""
    return _writer(names).comparisons(nodes)


def value(constant: Value) -> str:
    """A constant as DeALS writes it, as far as DeALS can; texts are always quoted."""
    match constant:
        case bool():
            return "true" if constant else "false"
        case int() | float():
            return repr(constant)
        case str():
            return (
                "'" + constant.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n") + "'"
            )
        case dt.datetime():
            return f"'{constant.isoformat(sep=' ')}'"
        case Object():
            known = constant.value
            return value(known) if isinstance(known, bool | int | float | str) else repr(constant)
        case _:
            return f"'{written(constant)}'"


def columns(info: RelationInfo) -> str:
    """`A: integer, B: integer`."""
    return commas(f"{c.name}: {c.type}" for c in info.columns)


@dataclass(frozen=True, slots=True)
class Tree:
    """A line and what stands below it."""

    line: str
    children: tuple[Tree, ...] = ()


def draw(tree: Tree) -> str:
    """The lines of a tree.

    >>> print(draw(Tree("a", (Tree("b", (Tree("c"),)), Tree("d")))))
    a
    :- b
    :  +- c
    +- d
    """
    return "\n".join(_lines(tree, "", ""))


def _lines(tree: Tree, first: str, rest: str) -> Iterator[str]:
    yield first + tree.line
    for number, child in enumerate(tree.children, start=1):
        is_last = number == len(tree.children)
        yield from _lines(
            child, rest + ("+- " if is_last else ":- "), rest + ("   " if is_last else ":  ")
        )


C = TypeVar("C")

_DEEPEST: Final = 50  # relations above each other in one tree


class RelationTrees(ABC, Generic[C]):
    """Draws relations; `home` has the clique of each that is derived."""

    def __init__(self, relations: Mapping[str, RelationInfo], home: Mapping[str, C]) -> None:
        self._relations = relations
        self._home = home
        self._drawn: set[str] = set()  # relations
        self._depth = 0
        self._below: list[str] = []  # what is too deep where it is first needed

    @abstractmethod
    def base(self, info: RelationInfo) -> Tree:
        """A relation that nothing derives."""

    @abstractmethod
    def clique(self, clique: C, info: RelationInfo) -> Tree:
        """A relation, with all that its clique derives."""

    def goal(self, goal: CoreGoal) -> Tree:
        """The relation that a goal reads, with its selection."""
        info = self._relations[goal.relation]
        tree = self.relation(goal.relation)
        return filtered(tree, goal.arguments, [c.name for c in info.columns])

    def trees(
        self, goals: Iterable[CoreGoal], wanted: Iterable[str], mark: str = ""
    ) -> Iterator[Tree]:
        """A tree below each goal and each wanted relation, and those that are too deep for them."""
        for goal in goals:
            yield Tree(goal_line(goal, mark), (self.goal(goal),))
        for name in wanted:
            yield Tree(f"{mark}Relation {name}", (self.relation(name),))
        yield from self.below()

    def relation(self, name: str) -> Tree:
        """A relation, in full if it was not drawn before."""
        info = self._relations[name]
        clique = self._home.get(name)
        if clique is None:
            return self.base(info)
        if name in self._drawn:
            return Tree(f"Relation {shown(info)}, see above")
        if self._depth >= _DEEPEST:
            if name not in self._below:
                self._below.append(name)
            return Tree(f"Relation {shown(info)}, see below")
        self._drawn.update(each for each, home in self._home.items() if home is clique)
        self._depth += 1
        tree = self.clique(clique, info)
        self._depth -= 1
        return tree

    def below(self) -> Iterable[Tree]:
        """Trees of their own for what was too deep; they may add to it."""
        for name in self._below:  # grows meanwhile
            yield Tree(f"Relation {name}", (self.relation(name),))


def union(inputs: list[Tree]) -> Tree:
    """Several inputs as one."""
    match inputs:
        case []:
            return Tree("Empty")
        case [one]:
            return one
        case _:
            return Tree("Union", tuple(inputs))


def goal_line(goal: CoreGoal, mark: str = "") -> str:
    """`Goal tc(A, B)`."""
    kind = "Export" if goal.export else "Goal"
    return f"{mark}{kind} {goal.name}({expressions(goal.arguments)})"


def aggregation(info: RelationInfo) -> tuple[str, str]:
    """The columns that group, and the functions of the others."""
    functions = commas(
        f"{function}({column.name})"
        for function, column in zip(info.aggregates, info.columns, strict=True)
        if function is not None
    )
    return commas(info.columns[i].name for i in info.group), functions


def headings(info: RelationInfo) -> str:
    """`A,B`."""
    return ",".join(c.name for c in info.columns)


def shown(info: RelationInfo) -> str:
    """`arc [A,B]`."""
    return f"{info.name} [{headings(info)}]"


def filtered(tree: Tree, arguments: Sequence[Term], names: Sequence[str], mark: str = "") -> Tree:
    """A tree below what constants and repeated variables among some arguments ask of it."""
    found: list[str] = []
    first: dict[str, str] = {}
    for argument, name in zip(arguments, names, strict=True):
        if isinstance(argument, Constant):
            found.append(f"{name} = {value(argument.value)}")
        elif argument.name in first:
            found.append(f"{first[argument.name]} = {name}")
        elif not argument.is_anonymous:
            first[argument.name] = name
    return Tree(f"{mark}Filter ({' and '.join(found)})", (tree,)) if found else tree
