"""What the columns of each operator of a rule are called.

The rule's variables name columns; a leaf of a relation that takes data shows the declared names
instead, as long as each of them means one thing within the rule. `labels(plan)` decides that for
every leaf, from the left, and says for every operator what its variables are called. For rules that
were made of SQL, variables have no names of their own: `by_column` calls them by the columns that
bind them, as SQL does, and numbers relations that a rule reads twice (`path1.B = path2.A`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from caladan.program import Constant, names
from caladan.program.transform import walk
from caladan.rules.body import Binding, Scan, ScanKind
from caladan.rules.operators import (
    AntiJoin,
    Extend,
    Join,
    Operator,
    Project,
    Prune,
    Select,
    Sort,
    Unit,
)


class Labels:
    """The names of an operator's variables, as explain shows them."""

    def __init__(self) -> None:
        # Operators compare by value, so two equal leaves of one rule are told apart by identity.
        self._scopes: dict[int, dict[str, str]] = {}
        self._renamed: set[int] = set()
        self._aliases: dict[int, str] = {}

    def of(self, node: Operator) -> Mapping[str, str]:
        """What the variables of an operator are called."""
        return self._scopes[id(node)]

    def is_renamed(self, node: Scan) -> bool:
        """Whether a leaf has to say what its columns are called."""
        return id(node) in self._renamed

    def note(self, node: Operator, scope: dict[str, str]) -> dict[str, str]:
        """Set the names of an operator."""
        self._scopes[id(node)] = scope
        return scope

    def qualify(self, plan: Operator) -> None:
        """Have leaves called by their relations, and variables by their columns."""
        leaves = list(_leaves(plan))
        times = Counter(leaf.relation for leaf in leaves)
        seen: Counter[str] = Counter()
        for leaf in leaves:
            seen[leaf.relation] += 1
            number = str(seen[leaf.relation]) if times[leaf.relation] > 1 else ""
            self._aliases[id(leaf)] = f"{leaf.relation}{number}"

    def note_leaf(self, node: Scan, bound: Mapping[str, str], variables: frozenset[str]) -> None:
        """Set the names of a leaf, given those to the left of it and the rule's variables."""
        if alias := self._aliases.get(id(node)):
            pairs = zip(node.arguments, node.column_names, strict=True)
            columns = {
                a.name: f"{alias}.{column}"
                for a, column in reversed(list(pairs))
                if not isinstance(a, Constant) and not a.is_anonymous
            }
            self.note(node, columns)
            return
        scope = {v: v for v in node.variables}
        if node.kind is not ScanKind.BASE:
            self.note(node, scope)
            return
        declared = {
            a.name: column
            for a, column in zip(node.arguments, node.column_names, strict=True)
            if not isinstance(a, Constant) and not a.is_anonymous
        }
        selects = any(isinstance(a, Constant) for a in node.arguments) or len(declared) < sum(
            not isinstance(a, Constant) and not a.is_anonymous for a in node.arguments
        )
        taken = variables | set(bound.values())
        clashes = any(
            label != name and label in taken
            for name, label in declared.items()
            if name not in bound
        )
        if selects or clashes:
            self._renamed.add(id(node))
            self.note(node, scope)
        else:
            self.note(node, declared)


def labels(plan: Project | Sort, *, by_column: bool = False) -> Labels:
    """The names in a rule's tree."""
    found = Labels()
    if by_column:
        found.qualify(plan)
    _visit(plan, found, _variables(plan), {})
    return found


def _visit(
    node: Operator, found: Labels, variables: frozenset[str], bound: Mapping[str, str]
) -> Mapping[str, str]:
    match node:
        case Unit():
            return found.note(node, {})
        case Scan():
            found.note_leaf(node, bound, variables)
            return found.of(node)
        case Join():
            left = _visit(node.left, found, variables, bound)
            right = _visit(node.right, found, variables, {**bound, **left})
            return found.note(node, {**right, **left})
        case AntiJoin():
            left = _visit(node.left, found, variables, bound)
            _visit(node.right, found, variables, {**bound, **left})
            return found.note(node, dict(left))
        case Extend():
            scope = _visit(node.input, found, variables, bound)
            return found.note(node, {**scope, node.binding.variable: node.binding.variable})
        case Prune():
            scope = _visit(node.input, found, variables, bound)
            return found.note(node, {v: scope[v] for v in node.keep})
        case Select() | Project() | Sort():
            return found.note(node, dict(_visit(node.input, found, variables, bound)))


def _leaves(node: Operator) -> Iterator[Scan]:
    match node:
        case Unit():
            return
        case Scan():
            yield node
        case Join() | AntiJoin():
            yield from _leaves(node.left)
            yield from _leaves(node.right)
        case Select() | Extend() | Prune() | Project() | Sort():
            yield from _leaves(node.input)


def _variables(plan: Operator) -> frozenset[str]:
    bound = {part.variable for part in walk(plan) if isinstance(part, Binding)}
    return (names(plan) | bound) - {"_"}
