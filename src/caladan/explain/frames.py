"""The physical plan of the spark engine.

A relation is drawn in full where it is first needed and only named after that; one that is very
deep down gets a tree of its own. A clique is a
`Recursion`, with the strategy it would have if its inputs were large, and why: `ExitExchange`
brings its first facts to where they belong, `RecExchange` what each round derives. Outside of
recursion, joins, unions and aggregates are the DataFrame operations that Spark is handed; which
join algorithm it takes, Spark decides when it sees sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from caladan.analysis.core import CoreGoal, RelationInfo, Term
from caladan.delta.program import DeltaClique, DeltaProgram, DeltaRule
from caladan.engines.spark.choice import NO_TASKS, SMALL_INPUTS, Choice, choices
from caladan.engines.spark.layout import partitioning
from caladan.explain.labels import Labels, labels
from caladan.explain.operators import cut, is_identity, join_columns, projected
from caladan.explain.terms import commas, comparisons, counted, expression, expressions, value
from caladan.explain.tree import Tree, draw
from caladan.operators.tree import (
    AntiJoin,
    Cut,
    Extend,
    Join,
    Operator,
    Project,
    Prune,
    Scan,
    Select,
    Unit,
    Version,
)
from caladan.program import Constant

_DEEPEST: Final = 50  # relations above each other in one tree

_SMALL: Final = (
    f"Inputs of at most {SMALL_INPUTS:,} facts in all are evaluated by one task (strategy: single)."
)
_JOINS: Final = (
    "Which side of a join outside of recursion is broadcast, or that both are exchanged, is\n"
    "decided from the numbers of facts."
)


def frames(
    program: DeltaProgram, wanted: Iterable[str], partitions: int | None, *, has_tasks: bool = True
) -> str:
    """A tree below each goal and each wanted relation; without tasks, all of it is frames."""
    drawing = _Drawing(program, partitions, has_tasks)
    trees = [Tree(_goal(g), (drawing.goal(g),)) for g in program.goals]
    trees += [Tree(f"Relation {name}", (drawing.relation(name),)) for name in wanted]
    for name in drawing.below:  # grows meanwhile
        trees.append(Tree(f"Relation {name}", (drawing.relation(name),)))
    if not trees:
        return "(nothing to evaluate)"
    notes = [*([_SMALL] if has_tasks else []), *([_JOINS] if drawing.has_joins else [])]
    return "\n\n".join([*map(draw, trees), *(["\n".join(notes)] if notes else [])])


def _goal(goal: CoreGoal) -> str:
    return f"{'Export' if goal.export else 'Goal'} {goal.name}({expressions(goal.arguments)})"


class _Drawing:
    def __init__(self, program: DeltaProgram, partitions: int | None, has_tasks: bool) -> None:
        self._program = program
        self._has_tasks = has_tasks
        self._partitions = "n" if partitions is None else str(partitions)
        self._home = {name: c for c in program.cliques for name in c.relations}
        self._drawn: set[str] = set()
        self._is_in_recursion = False
        self._broadcasts = False
        self._depth = 0
        self.has_joins = False
        self.below: list[str] = []  # what is too deep where it is first needed

    def goal(self, goal: CoreGoal) -> Tree:
        """The relation a goal reads, with its selection."""
        tree = self.relation(goal.relation)
        info = self._program.relations[goal.relation]
        conditions = list(_selections(goal.arguments, tuple(c.name for c in info.columns)))
        return Tree(f"Filter ({' and '.join(conditions)})", (tree,)) if conditions else tree

    def relation(self, name: str) -> Tree:
        """A relation, in full if it was not drawn before."""
        info = self._program.relations[name]
        clique = self._home.get(name)
        if clique is None:
            return Tree(f"Scan {_shown(info)}")
        if name in self._drawn:
            return Tree(f"Relation {_shown(info)}, see above")
        if self._depth >= _DEEPEST:
            if name not in self.below:
                self.below.append(name)
            return Tree(f"Relation {_shown(info)}, see below")
        self._drawn.update(clique.relations)
        outer, self._is_in_recursion = self._is_in_recursion, clique.is_recursive
        self._depth += 1
        tree = self._recursion(clique) if clique.is_recursive else self._derived(clique, info)
        self._depth -= 1
        self._is_in_recursion = outer
        return tree

    # ── Relations outside recursion ──────────────────────────────────────────────────────────────

    def _derived(self, clique: DeltaClique, info: RelationInfo) -> Tree:
        tree = self._union([*self._given(info), *(self._rule(r) for r in clique.exit_rules)])
        if info.has_aggregates:
            return Tree(f"HashAggregate {info.name}, {_aggregation(info)}", (tree,))
        return Tree(f"Distinct {info.name}", (tree,))

    def _union(self, inputs: list[Tree]) -> Tree:
        match inputs:
            case []:
                return Tree("Empty")
            case [one]:
                return one
            case _:
                return Tree("Union", tuple(inputs))

    def _given(self, info: RelationInfo) -> Iterator[Tree]:
        if info.takes_data:
            yield Tree(f"Scan {_shown(info)}")
        if facts := self._program.facts.get(info.name):
            yield Tree(f"LocalTableScan {_shown(info)}, {counted(len(facts), 'fact')}")

    # ── Cliques ──────────────────────────────────────────────────────────────────────────────────

    def _recursion(self, clique: DeltaClique) -> Tree:
        infos = [self._program.relations[name] for name in clique.relations]
        outputs = " ".join(f"[{_columns(info)}]" for info in infos)
        chosen = choices(clique, None)[0] if self._has_tasks else Choice("frame", NO_TASKS)
        children: list[Tree] = []
        for info in infos:
            exits = [
                *self._given(info),
                *(self._rule(r) for r in clique.exit_rules if r.rule.head == info.name),
            ]
            if exits:
                children.append(self._exchange("ExitExchange", clique, info, exits))
            self._broadcasts = self._has_tasks  # they have all that is finished
            rules = [self._rule(r) for r in clique.delta_rules if r.rule.head == info.name]
            self._broadcasts = False
            tree = self._exchange("RecExchange", clique, info, rules)
            if chosen.strategy == "pivoted":
                tree = Tree(f"{tree.line}: nothing has to move", tree.children)
            children.append(tree)
        names, how = commas(clique.relations), f"{chosen.strategy} ({chosen.reason})"
        return Tree(f"Recursion {outputs} (Driver) [{names}] strategy: {how}", tuple(children))

    def _exchange(
        self, kind: str, clique: DeltaClique, info: RelationInfo, inputs: list[Tree]
    ) -> Tree:
        keys = partitioning(clique, info)
        columns = commas(info.columns[i].name for i in keys)
        spread = f"hashpartitioning({columns}, {self._partitions})" if keys else "SinglePartition"
        tree = self._union(inputs)
        if info.has_aggregates:
            tree = Tree(f"HashAggregate {info.name}, {_aggregation(info)}", (tree,))
        return Tree(f"{kind} {info.name}, {spread}", (tree,))

    # ── Rules ────────────────────────────────────────────────────────────────────────────────────

    def _rule(self, rule: DeltaRule) -> Tree:
        return self._operator(rule.plan, labels(rule.plan))

    def _operator(self, node: Operator, names: Labels) -> Tree:
        match node:
            case Unit():
                return Tree("OneRow")
            case Scan():
                return self._scan(node, names)
            case Join():
                left, right = join_columns(node, names)
                how = f"Inner, [{left}], [{right}]" if node.on else "Cross"
                return self._two(f"Join {how}", node.left, node.right, names)
            case AntiJoin():
                left, right = join_columns(node, names)
                return self._two(
                    f"Join LeftAnti, [{left}], [{right}]", node.left, node.right, names
                )
            case Select():
                line = f"Filter ({comparisons(node.conditions, names.of(node.input))})"
            case Extend():
                added = expression(node.expression, names.of(node.input))
                line = f"Project [*, {added} AS {node.variable}]"
            case Prune():
                line = f"Project [{commas(names.of(node)[v] for v in node.keep)}]"
            case Project():
                if is_identity(node):
                    return self._operator(node.input, names)
                line = f"Project [{projected(node, names)}]"
            case Cut():
                # A set has no order: without a limit, sorting is left to whoever shows it.
                kind = "Sort, when shown" if node.limit is None else "TakeOrdered"
                line = f"{kind} ({cut(node, names)})"
        return Tree(line, (self._operator(node.input, names),))

    def _two(self, line: str, left: Operator, right: Operator, names: Labels) -> Tree:
        self.has_joins |= not self._is_in_recursion
        return Tree(line, (self._operator(left, names), self._operator(right, names)))

    def _scan(self, node: Scan, names: Labels) -> Tree:
        if node.version is not Version.FULL:
            shown = {Version.DELTA: "δ{}", Version.OLD: "{}", Version.NEW: "{}'"}[node.version]
            name = shown.format(node.relation)
            return Tree(f"RecursiveRelation [{expressions(node.arguments)}] ({name})")
        broadcasts, self._broadcasts = self._broadcasts, False
        tree = self.relation(node.relation)
        self._broadcasts = broadcasts
        if broadcasts:
            tree = Tree("BroadcastExchange", (tree,))
        conditions = list(_selections(node.arguments, node.columns))
        if conditions:
            tree = Tree(f"Filter ({' and '.join(conditions)})", (tree,))
        called = {column: names.of(node).get(v) for v, column in _first_places(node)}
        renamed = [f"{c} AS {v}" for c, v in called.items() if v not in (None, c)]
        return Tree(f"Rename [{commas(renamed)}]", (tree,)) if renamed else tree


def _first_places(node: Scan) -> Iterator[tuple[str, str]]:
    """The variables a user wrote in an atom, each with the column it is first bound by."""
    seen: set[str] = set()
    for argument, column in zip(node.arguments, node.columns, strict=True):
        if isinstance(argument, Constant) or argument.name.startswith("_"):
            continue
        if argument.name not in seen:
            seen.add(argument.name)
            yield argument.name, column


def _columns(info: RelationInfo) -> str:
    return ",".join(c.name for c in info.columns)


def _shown(info: RelationInfo) -> str:
    return f"{info.name} [{_columns(info)}]"


def _aggregation(info: RelationInfo) -> str:
    functions = commas(
        f"{function}({column.name})"
        for function, column in zip(info.aggregates, info.columns, strict=True)
        if function is not None
    )
    return f"keys [{commas(info.columns[i].name for i in info.group)}], functions [{functions}]"


def _selections(arguments: tuple[Term, ...], columns: tuple[str, ...]) -> Iterator[str]:
    """What constants and repeated variables among the arguments ask for."""
    first: dict[str, str] = {}
    for argument, column in zip(arguments, columns, strict=True):
        if isinstance(argument, Constant):
            yield f"{column} = {value(argument.value)}"
        elif argument.name in first:
            yield f"{first[argument.name]} = {column}"
        elif not argument.is_anonymous:
            first[argument.name] = column
