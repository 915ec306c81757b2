"""The physical plan of the spark engine.

A relation is drawn in full where it is first needed and only named after that; one that is very
deep down gets a tree of its own. A clique is a
`Recursion`, with its strategy and why; where sizes decide, with the one it has if its inputs are
large, and when it has another. `ExitExchange` brings its first facts to where they belong,
`RecExchange` what each round derives. A rule with one recursive atom reads a
`LinearRecursiveRelation`, one with several reads each as a `NonLinearRecursiveRelation`.

Joins are named by their kind: in tasks they are lookups in arrangements; in frames the smaller side
is broadcast, if it is small enough, or the kind is Spark's to choose. Where one task evaluates
everything, that is all that Spark is handed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from caladan.analysis.core import RelationInfo
from caladan.engines.spark.choice import (
    BROADCAST,
    CELLS_FROM,
    FULL,
    PAIRS,
    SMALL,
    SMALL_INPUTS,
    WAVES,
    Outlook,
    may_meet_often,
    partitioning,
)
from caladan.engines.spark.cube.plan import cyclic_part
from caladan.explain.operators import PlanTrees, cut, named, renamed
from caladan.explain.terms import (
    RelationTrees,
    Tree,
    aggregation,
    draw,
    expressions,
    filtered,
    goal_line,
    headings,
    shown,
    union,
)
from caladan.language.deals.printer import commas
from caladan.program.notation import counted
from caladan.rules.body import Scan, Version
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
    tree,
)
from caladan.rules.program import DeltaClique, DeltaProgram, DeltaRule

_SMALL: Final = (
    f"Inputs of at most {SMALL_INPUTS:,} facts in all are evaluated by one task (strategy: single)."
)
_CELLS: Final = (
    f"or HyperCubeJoin if its relations have at least {CELLS_FROM:,} facts, or {PAIRS:,} that meet"
)
_PARTS: Final = (
    f"Frames have n partitions: 1 for up to {SMALL:,} facts, else one for each {FULL:,} of what a\n"
    f"rule may derive, at most {WAVES} times as many as tasks run at once."
)
_JOINS: Final = (
    f"A join of frames is a BroadcastHashJoin if one side has at most {BROADCAST:,} facts (a\n"
    "ShuffledHashJoin if both lie in one partition), else of the kind that Spark chooses."
)


def frames(
    program: DeltaProgram,
    wanted: Iterable[str],
    seen: Sequence[Outlook],
    tasks: int | None,
    sizes: Mapping[str, int] | None,
    *,
    by_column: bool,
) -> str:
    """A tree below each goal and each wanted relation.

    `seen` says how each clique will be evaluated, `tasks` how many run at once, `sizes` are those
    of the data. What has no names of its own is named `by_column`, as in SQL.
    """
    drawing = _FrameTrees(program, tasks, seen, sizes or {}, by_column=by_column)
    trees = list(drawing.trees(program.goals, wanted))
    if not trees:
        return "(nothing to evaluate)"
    is_open = any(not each.is_decided for each in seen)
    waiting = [_waiting(e) for e in seen if not e.is_decided and e.large.strategy != "frame"]
    notes = [
        *(["Strategies wait for sizes:", *waiting] if waiting else []),
        *([_SMALL] if is_open else []),
        *([_JOINS] if drawing.has_joins else []),
        *([_PARTS] if drawing.has_frames else []),
    ]
    return "\n\n".join([*map(draw, trees), *(["\n".join(notes)] if notes else [])])


def one_task(program: DeltaProgram, wanted: Iterable[str], seen: Sequence[Outlook]) -> str:
    """The one task that evaluates everything, with all that it reads."""
    derived = {name for each in seen for name in each.clique.relations}
    scans = [
        Tree(f"Scan {shown(info)}")
        for name, info in program.relations.items()
        if info.takes_data or name not in derived
    ]
    names = commas(name for each in seen for name in each.clique.relations)
    facts = "" if seen[0].facts is None else f"{counted(seen[0].facts, 'fact')}: "
    how = f"strategy: single ({facts}{seen[0].large.reason})"
    task = Tree(f"Task [{names}] {how}", tuple(scans))
    asked = [*map(goal_line, program.goals), *(f"Relation {name}" for name in wanted)]
    first, *others = asked or ["Everything"]
    trees = [Tree(first, (task,)), *(Tree(each, (Tree("Task, see above"),)) for each in others)]
    return "\n\n".join(map(draw, trees))


class _FrameTrees(RelationTrees[DeltaClique], PlanTrees):
    def __init__(
        self,
        program: DeltaProgram,
        tasks: int | None,
        seen: Sequence[Outlook],
        sizes: Mapping[str, int],
        *,
        by_column: bool,
    ) -> None:
        home = {name: clique for clique in program.cliques for name in clique.relations}
        super().__init__(program.relations, home)
        self._program = program
        self._by_column = by_column
        self._sizes = sizes
        self._outlooks = {each.clique.relations: each for each in seen}
        self._partitions = "n" if tasks is None else str(tasks)
        self._in_tasks = False  # whether what is drawn is evaluated by tasks
        self._is_linear = True
        self._broadcasts = False
        self.has_joins = False
        self.has_frames = False  # whether recursion goes by frames

    def base(self, info: RelationInfo) -> Tree:
        return Tree(f"Scan {shown(info)}")

    def clique(self, clique: DeltaClique, info: RelationInfo) -> Tree:
        outer, self._in_tasks = self._in_tasks, self._outlook(clique).large.strategy != "frame"
        tree = self._recursion(clique) if clique.is_recursive else self._derived(clique, info)
        self._in_tasks = outer
        return tree

    def _outlook(self, clique: DeltaClique) -> Outlook:
        return self._outlooks[clique.relations]

    # ── Relations outside recursion ──────────────────────────────────────────────────────────────

    def _derived(self, clique: DeltaClique, info: RelationInfo) -> Tree:
        tree = union([*self._given(info), *(self._rule(r) for r in clique.exit_rules)])
        outlook = self._outlook(clique)
        is_plain = outlook.large.strategy == "frame"
        how = _declined(outlook, ", ") if is_plain else f", strategy: {_strategy(outlook)}"
        if info.has_aggregates:
            return Tree(f"HashAggregate {info.name}, {_aggregation(info)}{how}", (tree,))
        return Tree(f"Distinct {info.name}{how}", (tree,))

    def _given(self, info: RelationInfo) -> Iterator[Tree]:
        if info.takes_data:
            yield Tree(f"Scan {shown(info)}")
        if facts := self._program.facts.get(info.name):
            yield Tree(f"LocalTableScan {shown(info)}, {counted(len(facts), 'fact')}")

    # ── Cliques ──────────────────────────────────────────────────────────────────────────────────

    def _recursion(self, clique: DeltaClique) -> Tree:
        infos = [self._program.relations[name] for name in clique.relations]
        outputs = " ".join(f"[{headings(info)}]" for info in infos)
        outlook = self._outlook(clique)
        children: list[Tree] = []
        for info in infos:
            exits = [
                *self._given(info),
                *(self._rule(r) for r in clique.exit_rules if r.rule.head == info.name),
            ]
            if exits:
                children.append(self._exchange("ExitExchange", clique, info, exits))
            self._broadcasts = self._in_tasks  # they have all that is finished
            rules = [self._rule(r) for r in clique.delta_rules if r.rule.head == info.name]
            self._broadcasts = False
            tree = self._exchange("RecExchange", clique, info, rules)
            if outlook.large.strategy == "pivoted":
                tree = Tree(f"{tree.line}: nothing has to move", tree.children)
            children.append(tree)
        names, how = commas(clique.relations), _strategy(outlook)
        return Tree(f"Recursion {outputs} (Driver) [{names}] strategy: {how}", tuple(children))

    def _exchange(
        self, kind: str, clique: DeltaClique, info: RelationInfo, inputs: list[Tree]
    ) -> Tree:
        keys = partitioning(clique, info)
        columns = commas(info.columns[i].name for i in keys)
        self.has_frames |= not self._in_tasks
        count = self._partitions if self._in_tasks else "n"
        spread = f"hashpartitioning({columns}, {count})" if keys else "SinglePartition"
        tree = union(inputs)
        if info.has_aggregates:
            tree = Tree(f"HashAggregate {info.name}, {_aggregation(info)}", (tree,))
        return Tree(f"{kind} {info.name}, {spread}", (tree,))

    # ── Rules ────────────────────────────────────────────────────────────────────────────────────

    def _rule(self, rule: DeltaRule) -> Tree:
        clique = self._home[rule.rule.head]
        atoms = sum(a.relation in clique.relations for a in rule.rule.positive)
        self._is_linear = atoms == 1
        plan = tree(rule.body)
        return self.operator(named(plan, by_column=self._by_column))

    def cut(self, node: Sort, names: Mapping[str, str]) -> str:
        # A set has no order: without a limit, sorting is left to whoever shows it.
        kind = "Sort, when shown" if node.cut.limit is None else "TakeOrdered"
        return f"{kind} ({cut(node, names)})"

    def join(self, node: Join | AntiJoin, type: str, columns: tuple[list[str], list[str]]) -> str:
        """A join by its kind, the columns it compares, and the side that is built or sent round."""
        left, right = map(commas, columns)
        what = f"{type}, [{left}], [{right}]" if node.on else type
        if self._in_tasks:
            return f"LookupJoin {what}"
        cells = self._cells(node)
        if cells is not None and sum(cells) >= CELLS_FROM:
            return f"HyperCubeJoin {what}"
        is_decided = not _is_cyclic(node) or (cells is not None and not may_meet_often(cells))
        either = "" if is_decided else f", {_CELLS}"
        sides = (self._bound(node.left), self._bound(node.right))
        if type == "LeftAnti":
            sides = (None, sides[1])  # only what is negated is sent round
        known = [size for size in sides if size is not None]
        if known and min(known) <= BROADCAST:
            side = "Right" if sides[1] == min(known) else "Left"
            if any(_is_delta(each) for each in (node.left, node.right)):
                side = f"{side}, or the other side while it is smaller"
            return f"BroadcastHashJoin {what}, Build{side}{either}"
        self.has_joins = True
        return f"Join {what}{either}"

    def _cells(self, node: Join | AntiJoin) -> list[int] | None:
        """How many facts the atoms of a cyclic body have, where they are known."""
        found = cyclic_part(node.parts) if isinstance(node, Join) else None
        if found is None:
            return None
        sizes = [self._sizes.get(s.relation) for s in found[0] if s.version is Version.FULL]
        known = [size for size in sizes if size is not None]
        return known if len(known) == len(found[0]) else None

    def _bound(self, node: Operator) -> int | None:
        """How many facts go into a side of a join, where that is known; joins may make more."""
        match node:
            case Unit():
                return 1
            case Scan():
                return self._sizes.get(node.relation) if node.version is Version.FULL else None
            case Join() | AntiJoin() | Project() | Sort():
                return None
            case _:
                return self._bound(node.input)

    def scan(self, node: Scan, names: Mapping[str, str]) -> Tree:
        if node.version is not Version.FULL:
            shown = {Version.DELTA: "δ{}", Version.OLD: "{}", Version.NEW: "{}'"}[node.version]
            name = shown.format(node.relation)
            kind = "LinearRecursiveRelation" if self._is_linear else "NonLinearRecursiveRelation"
            columns = commas(node.column_names) if self._by_column else expressions(node.arguments)
            return Tree(f"{kind} [{columns}] ({name})")
        broadcasts, self._broadcasts = self._broadcasts, False
        tree = self.relation(node.relation)
        self._broadcasts = broadcasts
        if broadcasts:
            tree = Tree("BroadcastExchange", (tree,))
        tree = filtered(tree, node.arguments, node.column_names)
        return tree if self._by_column else renamed(tree, node, names)


def _is_cyclic(node: Join | AntiJoin) -> bool:
    return isinstance(node, Join) and cyclic_part(node.parts) is not None


def _is_delta(node: Operator) -> bool:
    """Whether a side of a join is a relation of the clique, whose size changes with rounds."""
    match node:
        case Scan():
            return node.version is not Version.FULL
        case Select() | Extend() | Prune():
            return _is_delta(node.input)
        case _:
            return False


def _strategy(outlook: Outlook) -> str:
    """The strategy, and why; where sizes decide, the one if much goes in."""
    facts = "" if outlook.facts is None else f"{counted(outlook.facts, 'fact')} go in; "
    sent = "" if outlook.inputs is None else str(outlook.inputs)
    reason = f"{outlook.large.reason}{'; ' if sent else ''}{sent}{_declined(outlook, '; ')}"
    return f"{outlook.large.strategy} ({facts}{reason})"


def _declined(outlook: Outlook, before: str) -> str:
    """What was asked for and cannot serve."""
    said = outlook.declined
    return "" if said is None else f"{before}not {said.strategy}: {said.reason}"


def _waiting(outlook: Outlook) -> str:
    """What sizes decide, and where they do."""
    first = outlook.large
    others = (f"{each.strategy} {each.reason}" for each in outlook.options if each is not first)
    return f"[{commas(outlook.clique.relations)}] {first.strategy}, but {'; '.join(others)}"


def _aggregation(info: RelationInfo) -> str:
    keys, functions = aggregation(info)
    return f"keys [{keys}], functions [{functions}]"
