"""The physical plan of the spark engine.

A clique is a `Recursion`, with where it loops: the driver of a session, or tasks; with its
strategy and why; where sizes decide, with the one it has if its inputs are large, and when it has
another. `ExitExchange` brings its first facts to where they belong, `RecExchange` what each round
derives: `false` if that is there already.

Joins are named by their kind: in tasks they are lookups in arrangements; in frames what has a hint
is broadcast, else the smaller side, if it is small enough, or the kind is Spark's to choose. Where
one task evaluates everything, that is all that Spark is handed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
)
from caladan.engines.spark.cube.plan import cyclic_part
from caladan.explain.logical import NOTHING, Names, PlanTrees, mask, union
from caladan.explain.terms import Tree, describe_sort, draw, expressions, headings
from caladan.language.deals.printer import commas
from caladan.program import Type, Variable
from caladan.program.notation import count_things
from caladan.rules.body import Scan, Version
from caladan.rules.logical import LogicalClique, LogicalPlan
from caladan.rules.operators import (
    AntiJoin,
    BroadcastHint,
    Extend,
    Join,
    Operator,
    Project,
    Prune,
    Select,
    Sort,
    Unit,
    leaves,
)
from caladan.rules.program import DeltaProgram

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
_HINTS: Final = f"What has a hint is broadcast if it has at most {BROADCAST:,} facts."
_JOINS: Final = (
    f"A join of frames is a BroadcastHashJoin if one side has at most {BROADCAST:,} facts (a\n"
    "ShuffledHashJoin if both lie in one partition), else of the kind that Spark chooses."
)


def frames(
    plan: LogicalPlan,
    seen: Sequence[Outlook],
    tasks: int | None,
    sizes: Mapping[str, int] | None,
    partitions: int | None = None,
) -> str:
    """A tree below each goal and each wanted relation.

    `seen` says how each clique will be evaluated, `tasks` how many run at once, `sizes` are those
    of the data; `partitions` is how many frames are to have.
    """
    drawing = _FrameTrees(plan, tasks, seen, sizes or {}, partitions)
    trees = list(drawing.trees())
    if not trees:
        return NOTHING
    is_open = any(not each.is_decided for each in seen)
    waiting = [
        _describe_waiting(e) for e in seen if not e.is_decided and e.large.strategy != "frame"
    ]
    notes = [
        *(["Strategies wait for sizes:", *waiting] if waiting else []),
        *([_SMALL] if is_open else []),
        *([_JOINS] if drawing.has_joins else []),
        *([_HINTS] if drawing.has_open_hints else []),
        *([_PARTS] if drawing.has_open_frames else []),
    ]
    return "\n\n".join([*map(draw, trees), *(["\n".join(notes)] if notes else [])])


def one_task(program: DeltaProgram, wanted: Iterable[str], seen: Sequence[Outlook]) -> str:
    """The one task that evaluates everything, with all that it reads."""
    derived = {name for each in seen for name in each.clique.relations}
    scans = [
        Tree(f"Scan {name} [{headings(info)}]")
        for name, info in program.relations.items()
        if info.takes_data or name not in derived
    ]
    names = commas(name for each in seen for name in each.clique.relations)
    facts = "" if seen[0].facts is None else f"{count_things(seen[0].facts, 'fact')}: "
    how = f"strategy: single ({facts}{seen[0].large.reason})"
    task = Tree(f"Task [{names}] {how}", tuple(scans))
    goals = (
        f"{'Export' if goal.export else 'Goal'} {goal.name}({expressions(goal.arguments)})"
        for goal in program.goals
    )
    first, *others = [*goals, *(f"Relation {name}" for name in wanted)] or ["Everything"]
    trees = [Tree(first, (task,)), *(Tree(each, (Tree("Task, see above"),)) for each in others)]
    return "\n\n".join(map(draw, trees))


class _FrameTrees(PlanTrees):
    def __init__(
        self,
        plan: LogicalPlan,
        tasks: int | None,
        seen: Sequence[Outlook],
        sizes: Mapping[str, int],
        partitions: int | None,
    ) -> None:
        super().__init__(plan, has_aliases=False)
        self._sizes = sizes
        self._outlooks = {each.clique.relations: each for each in seen}
        self._tasks = "n" if tasks is None else str(tasks)
        self._partitions = partitions
        self._in_tasks = False  # whether what is drawn is evaluated by tasks
        self.has_joins = False
        self.has_open_hints = False  # whether sizes decide if hints hold
        self.has_open_frames = False  # whether sizes decide how many partitions frames have

    # ── Relations ────────────────────────────────────────────────────────────────────────────────

    def base(self, info: RelationInfo) -> Tree:
        return Tree(f"Scan ExistingRDD[{','.join(self.columns(info.name))}]")

    def facts(self, info: RelationInfo, many: int) -> Tree:
        called = ",".join(self.columns(info.name))
        return Tree(f"LocalTableScan [{called}], {count_things(many, 'fact')}")

    def derived(self, clique: LogicalClique, name: str) -> Tree:
        outlook = self._outlooks[clique.clique.relations]
        outer, self._in_tasks = self._in_tasks, outlook.large.strategy != "frame"
        info = self.relations[name]
        tree = union(self.exits(clique, info))
        how = (
            f", strategy: {_strategy(outlook)}"
            if self._in_tasks
            else _describe_declined(outlook, ", ")
        )
        self._in_tasks = outer
        if info.has_aggregates:
            return Tree(f"HashAggregate {name}, {self.aggregation(info)}{how}", (tree,))
        return Tree(f"Distinct {name}{how}", (tree,))

    def collected(self, info: RelationInfo, tree: Tree) -> Tree:
        if not info.has_aggregates:
            return tree
        return Tree(f"HashAggregate {info.name}, {self.aggregation(info)}", (tree,))

    def aggregation(self, info: RelationInfo) -> str:
        keys, functions = super().aggregation(info).split("], [")
        return f"keys {keys}], functions [{functions}"

    def recursion(self, clique: LogicalClique) -> Tree:
        outlook = self._outlooks[clique.clique.relations]
        outer, self._in_tasks = self._in_tasks, outlook.large.strategy != "frame"
        infos = [self.relations[name] for name in clique.clique.relations]
        children: list[Tree] = []
        moves = clique.pivot is None
        for info in infos:
            if exits := self.exits(clique, info):
                starts = [r for r in clique.exits if r.rule.head == info.name and r.output]
                called = list(map(str, starts[0].output)) if starts else self.columns(info.name)
                children.append(self._exchange("ExitExchange", "", clique, info, called, exits))
            rules = self.rules(clique.recursive, info)
            told, called = f", {str(moves).lower()}", self.columns(info.name)
            children.append(self._exchange("RecExchange", told, clique, info, called, rules))
        outputs = " ".join(f"[{','.join(self.columns(info.name))}]" for info in infos)
        where = "Tasks" if self._in_tasks else "Driver"
        masks = "".join(mask(clique, info).replace(" ", "") for info in infos)
        line = f"Recursion {outputs} ({where}) [{commas(clique.clique.relations)}]{masks}"
        if self._in_tasks or outlook.declined is not None or not outlook.is_decided:
            line += f" strategy: {_strategy(outlook)}"
        self._in_tasks = outer
        return Tree(line, tuple(children))

    def _exchange(
        self,
        kind: str,
        told: str,
        clique: LogicalClique,
        info: RelationInfo,
        called: Sequence[str],
        inputs: list[Tree],
    ) -> Tree:
        keys = clique.partitioning(info)
        columns = commas(called[i] for i in keys)
        if self._in_tasks:
            number = self._tasks
        else:
            number = "n" if self._partitions is None else str(self._partitions)
            self.has_open_frames |= self._partitions is None
        spread = f"hashpartitioning({columns}, {number})" if keys else "SinglePartition"
        return Tree(f"{kind} {info.name}{told}, {spread}", (self.collected(info, union(inputs)),))

    # ── Rules ────────────────────────────────────────────────────────────────────────────────────

    def cut(self, node: Sort, names: Names) -> str:
        # A set has no order: without a limit, sorting is left to whoever shows it.
        kind = "Sort, when shown" if node.cut.limit is None else "TakeOrdered"
        return f"{kind} ({describe_sort(node, names)})"

    def join(self, node: Join | AntiJoin, type: str, pairs: Sequence[tuple[str, str]]) -> str:
        """A join by its kind, the columns it compares, and the side that is built or sent round."""
        sides = [commas(side) for side in zip(*pairs, strict=True)] or ["", ""]
        what = f"[{sides[0]}], [{sides[1]}], {type}" if pairs else type
        if self._in_tasks:
            return f"LookupJoin {what}"
        cells = self._cells(node)
        if cells is not None and sum(cells) >= CELLS_FROM:
            return f"HyperCubeJoin {what}"
        is_decided = not _is_cyclic(node) or (cells is not None and not may_meet_often(cells))
        either = "" if is_decided else f", {_CELLS}"
        for side, given in (("Right", node.right), ("Left", node.left)):
            if isinstance(given, BroadcastHint):
                known = self._bound(given)
                self.has_open_hints |= known is None
                if known is None or known <= BROADCAST:
                    return f"BroadcastHashJoin {what}, Build{side}{either}"
        left, right = self._bound(node.left), self._bound(node.right)
        bounds = (None, right) if type == "LeftAnti" else (left, right)  # what is negated is sent
        known = [size for size in bounds if size is not None]
        if known and min(known) <= BROADCAST:
            side = "Right" if right == min(known) else "Left"
            if any(_is_delta(each) for each in (node.left, node.right)):
                side = f"{side}, or the other side while it is smaller"
            return f"BroadcastHashJoin {what}, Build{side}{either}"
        self.has_joins = True
        return f"Join {what}{either}"

    def broadcast(self, tree: Tree, node: BroadcastHint, keys: Sequence[str]) -> Tree:
        """What is sent to all tasks, by the columns that are looked up."""
        if self._in_tasks:
            return Tree("BroadcastExchange", (tree,))
        known = self._bound(node)
        if known is not None and known > BROADCAST:
            return tree
        types = _types(node.input)
        found = (_key(list(types).index(v), types[v], alone=len(keys) == 1) for v in keys)
        mode = (
            f"HashedRelationBroadcastMode(List({commas(found)}))"
            if keys
            else "IdentityBroadcastMode"
        )
        return Tree(f"BroadcastExchange {mode}", (tree,))

    def recursive(self, scan: Scan) -> str:
        called = ",".join(map(str, scan.attributes))
        return f"{self.kind_of(scan)} [{called}]({self.version(scan)})"

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


_SPARK_TYPES: Final = {
    "integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint",
    "datetime": "timestamp",
}  # fmt: skip


def _key(place: int, type: Type, *, alone: bool) -> str:
    """A column that is looked up, as Spark writes it; one whole number is hashed as a long."""
    named = _SPARK_TYPES.get(str(type), str(type))
    read = f"input[{place}, {named}, true]"
    return f"cast({read} as bigint)" if alone and type.is_integral and named != "bigint" else read


def _types(node: Operator) -> dict[str, Type]:
    """The variables of a side of a join, with the types of their columns."""
    found: dict[str, Type] = {}
    for scan in leaves(node):
        for argument, attribute in zip(scan.arguments, scan.attributes, strict=True):
            if isinstance(argument, Variable) and not argument.is_anonymous:
                found.setdefault(argument.name, attribute.type)
    return found


def _is_cyclic(node: Join | AntiJoin) -> bool:
    return isinstance(node, Join) and cyclic_part(node.parts) is not None


def _is_delta(node: Operator) -> bool:
    """Whether a side of a join is a relation of the clique, whose size changes with rounds."""
    match node:
        case Scan():
            return node.version is not Version.FULL
        case Select() | Extend() | Prune() | BroadcastHint():
            return _is_delta(node.input)
        case _:
            return False


def _strategy(outlook: Outlook) -> str:
    """The strategy, and why; where sizes decide, the one if much goes in."""
    facts = "" if outlook.facts is None else f"{count_things(outlook.facts, 'fact')} go in; "
    sent = "" if outlook.inputs is None else str(outlook.inputs)
    reason = (
        f"{outlook.large.reason}{'; ' if sent else ''}{sent}{_describe_declined(outlook, '; ')}"
    )
    return f"{outlook.large.strategy} ({facts}{reason})"


def _describe_declined(outlook: Outlook, before: str) -> str:
    """What was asked for and cannot serve."""
    said = outlook.declined
    return "" if said is None else f"{before}not {said.strategy}: {said.reason}"


def _describe_waiting(outlook: Outlook) -> str:
    """What sizes decide, and where they do."""
    first = outlook.large
    others = (f"{each.strategy} {each.reason}" for each in outlook.options if each is not first)
    return f"[{commas(outlook.clique.relations)}] {first.strategy}, but {'; '.join(others)}"
