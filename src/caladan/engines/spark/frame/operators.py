"""A rule's body, seen as a tree of operators, as DataFrame operations.

`compiled(rule, relations)` translates the tree once and returns a function that, given a way to
read relations, builds the frame of a round: expressions are translated a single time, however many
rounds there are. Variables are columns v0, v1 …, in the order in which the rule meets them.

An `Extend` is not computed where it stands but where its variable is needed: so arithmetic sees
only rows that have passed the selections and joins before. `Prune` is left to Spark, which reads
no column that nobody needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql import functions as sf

from caladan.analysis.core import CoreRule, RelationInfo
from caladan.engines.spark.choice import BROADCAST
from caladan.engines.spark.columns.expressions import ComputedColumn, Expressions
from caladan.engines.spark.columns.physical import evaluation_type
from caladan.engines.spark.columns.types import inside, literal
from caladan.engines.spark.cube.plan import CubeBody, cyclic_part
from caladan.engines.spark.cube.spread import solve_by_cells
from caladan.engines.spark.session.workspace import FrameRows
from caladan.program import Comparison, Constant, Expression, Type
from caladan.rules.body import Scan, Version
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
    SubqueryAlias,
    Unit,
    tree,
)
from caladan.rules.program import DeltaRule

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


ReadRelation: TypeAlias = Callable[[str | None, Version], FrameRows]
"""Reads a version of a relation; None asks for one row without columns."""

FrameStep: TypeAlias = Callable[[ReadRelation], FrameRows]


@dataclass(frozen=True, slots=True)
class _Node:
    """How to build a frame, which variables it has as columns, and which are not computed yet."""

    step: FrameStep
    bound: Mapping[str, ComputedColumn]
    waiting: Mapping[str, ComputedColumn]

    @property
    def all(self) -> Mapping[str, ComputedColumn]:
        return {**self.bound, **self.waiting}

    def then(self, change: Callable[[DataFrame], DataFrame]) -> _Node:
        step = self.step

        def changed(read: ReadRelation) -> FrameRows:
            rows = step(read)
            return replace(rows, frame=change(rows.frame))

        return replace(self, step=changed)


def compile_rule(
    rule: DeltaRule, relations: Mapping[str, RelationInfo]
) -> Callable[[ReadRelation], DataFrame]:
    """The function that builds a rule's frame: head columns c0 …, then contributors' keys k0 …"""
    node = _Rule(rule.rule, relations).top(tree(rule.body))
    return lambda read: node.step(read).frame


@dataclass(frozen=True, slots=True)
class _Rule:
    rule: CoreRule
    relations: Mapping[str, RelationInfo]

    def top(self, plan: Project | Sort) -> _Node:
        if isinstance(plan, Project):
            return self._project(plan, len(plan.columns))
        width, limit = plan.cut.width, plan.cut.limit
        node = self._project(plan.input, width)
        if limit is None:  # a set has no order; whoever shows it sorts
            return node.then(lambda frame: frame.select(*_names(width)))
        order = [
            sf.desc(f"c{i}") if descending else sf.asc(f"c{i}") for i, descending in plan.cut.order
        ]
        order += [sf.asc(f"c{i}") for i in range(len(plan.input.columns))]

        def cut(frame: DataFrame) -> DataFrame:
            found = frame.distinct()
            ordered = found.orderBy(*order) if order else found  # without columns: one row at most
            return ordered.limit(limit).select(*_names(width))

        return node.then(cut)

    def _project(self, plan: Project, width: int) -> _Node:
        node = self._node(plan.input)
        types = list(self.relations[self.rule.head].types)
        columns: list[Column] = []
        for i, expression in enumerate(plan.columns):
            row = self.relations[self.rule.head].aggregates[i] if i < width else None
            if row is not None and row.is_gathered:  # its terms are keys
                columns.append(sf.lit(None).cast(inside(types[i])).alias(f"c{i}"))
                continue
            computed = self._compute(expression, node)
            if i < width:
                computed = computed.as_type(types[i])
            columns.append(computed.column.alias(f"c{i}"))
        if not columns:
            columns.append(sf.lit(True).alias("c0"))
        keys = [self._compute(e, node).column.alias(f"k{j}") for j, e in enumerate(plan.keys)]
        return node.then(lambda frame: frame.select(*columns, *keys))

    # ── Inside a body ────────────────────────────────────────────────────────────────────────────

    def _node(self, operator: Operator) -> _Node:
        match operator:
            case Unit():
                return _Node(lambda read: read(None, Version.FULL), {}, {})
            case Scan():
                return self._scan(operator)
            case BroadcastHint() | SubqueryAlias():
                return self._node(operator.input)
            case Join():
                return self._join(operator)
            case AntiJoin():
                return self._anti_join(operator)
            case Select():
                return self._select(self._node(operator.input), operator.conditions)
            case Extend():
                return self._extend(operator)
            case Prune():
                node = self._node(operator.input)
                keep = set(operator.keep)
                return replace(node, waiting={v: c for v, c in node.waiting.items() if v in keep})
            case Project() | Sort():
                raise AssertionError("a projection stands at the top")

    def _scan(self, scan: Scan) -> _Node:
        conditions: list[Column] = []
        found: dict[str, Column] = {}
        types = self.relations[scan.relation].types
        for i, (argument, type) in enumerate(zip(scan.arguments, types, strict=True)):
            column = sf.col(f"c{i}")
            if isinstance(argument, Constant):
                conditions.append(column == literal(argument.value, type))
            elif not argument.is_anonymous:
                wanted = self._type(argument.name, type)
                if wanted is not evaluation_type(type):
                    column = column.cast(inside(wanted))
                if argument.name in found:
                    conditions.append(found[argument.name] == column)
                else:
                    found[argument.name] = column
        chosen = [column.alias(self._name(variable)) for variable, column in found.items()]

        condition = _all(conditions) if conditions else None
        last: list[
            tuple[DataFrame, FrameRows]
        ] = []  # a finished relation is the same in every round

        def step(read: ReadRelation) -> FrameRows:
            rows = read(scan.relation, scan.version)
            if last and last[0][0] is rows.frame:
                return last[0][1]
            frame = rows.frame if condition is None else rows.frame.where(condition)
            made = replace(rows, frame=frame.select(*chosen))
            if scan.version is Version.FULL:
                last[:] = [(rows.frame, made)]
            return made

        return _Node(step, {v: self._bound(v) for v in found}, {})

    def _join(self, join: Join) -> _Node:
        plain = self._binary(join)
        cyclic = cyclic_part(join.parts)
        if cyclic is None:
            return plain
        scans, conditions = cyclic
        nodes = [self._scan(scan) for scan in scans]
        bound = {name: computed for node in nodes for name, computed in node.bound.items()}
        types = {name: computed.type for name, computed in bound.items()}
        body = CubeBody(tuple(scan.variables for scan in scans), types, conditions)

        columns = {name: self._name(name) for name in bound}
        is_round = any(scan.version is not Version.FULL for scan in scans)

        def step(read: ReadRelation) -> FrameRows:
            rows = [node.step(read) for node in nodes]
            given = [(each.frame, each.bound) for each in rows]
            frame = solve_by_cells(body, given, columns, is_round=is_round)
            return plain.step(read) if frame is None else FrameRows(frame, None, lone=False)

        return _Node(step, bound, {})

    def _binary(self, join: Join) -> _Node:
        left = self._present(self._node(join.left), join.on)
        right = self._present(self._node(join.right), join.on)
        on = [self._name(v) for v in join.on]
        hinted = tuple(isinstance(side, BroadcastHint) for side in (join.right, join.left))

        def step(read: ReadRelation) -> FrameRows:
            return _join(left.step(read), right.step(read), on, hinted)

        return _Node(step, {**left.bound, **right.bound}, {**left.waiting, **right.waiting})

    def _anti_join(self, join: AntiJoin) -> _Node:
        left = self._present(self._node(join.left), join.on)
        right = self._node(join.right)
        on = [self._name(v) for v in join.on]

        def step(read: ReadRelation) -> FrameRows:
            rows, absent = left.step(read), right.step(read)
            if not on:  # no variable to meet on: is there any match at all?
                none = absent.frame.limit(1).select(sf.lit(True).alias("match"))
                return replace(rows, frame=rows.frame.join(none, sf.lit(True), "left_anti"))
            other = absent.frame
            if absent.bound is not None and absent.bound <= BROADCAST:
                lone = rows.lone and absent.lone
                other = other.hint("shuffle_hash") if lone else sf.broadcast(other)
            return replace(rows, frame=rows.frame.join(other, on, "left_anti"))

        return replace(left, step=step)

    def _select(self, node: _Node, conditions: Sequence[Comparison]) -> _Node:
        holding = [Expressions(self.rule, c.operator == "=").holds(c, node.all) for c in conditions]
        # What cannot fail comes first, to keep rows away from what can.
        for may_fail in (False, True):
            chosen = [c.column for c in holding if c.may_fail is may_fail]
            if chosen:
                condition = _all(chosen)
                node = node.then(lambda frame, condition=condition: frame.where(condition))
        return node

    def _extend(self, extend: Extend) -> _Node:
        node, binding = self._node(extend.input), extend.binding
        expressions = Expressions(self.rule, binding.solved)
        computed = expressions.compute(binding.expression, node.all)
        computed = computed.as_type(self._type(binding.variable, computed.type))
        if binding.solved:
            exists = computed.column.isNotNull()
            node = node.then(lambda frame: frame.where(exists))
        return replace(node, waiting={**node.waiting, binding.variable: computed})

    # ── Variables ────────────────────────────────────────────────────────────────────────────────

    def _compute(self, expression: Expression, node: _Node) -> ComputedColumn:
        return Expressions(self.rule).compute(expression, node.all)

    def _present(self, node: _Node, wanted: Sequence[str]) -> _Node:
        """The node with waiting variables that a join needs computed as columns."""
        due = {v: c for v, c in node.waiting.items() if v in wanted}
        if not due:
            return node
        added = [computed.column.alias(self._name(v)) for v, computed in due.items()]
        node = node.then(lambda frame: frame.select("*", *added))
        return replace(
            node,
            bound={**node.bound, **{v: self._bound(v) for v in due}},
            waiting={v: c for v, c in node.waiting.items() if v not in due},
        )

    def _bound(self, variable: str) -> ComputedColumn:
        return ComputedColumn(sf.col(self._name(variable)), self._type(variable, Type.LONG))

    def _name(self, variable: str) -> str:
        return f"v{list(self.rule.types).index(variable)}"

    def _type(self, variable: str, otherwise: Type) -> Type:
        return evaluation_type(self.rule.types.get(variable, otherwise))


def _join(left: FrameRows, right: FrameRows, on: list[str], hinted: tuple[bool, ...]) -> FrameRows:
    """A join by the way that suits the sizes: in one partition, with one side sent round, or by
    whatever Spark finds best for two large sides.

    A side that is `hinted`, the right or the left, is sent round if it is small enough; else the
    smaller one is.
    """
    one, other = left.frame, right.frame
    lone = left.lone and right.lone
    right_is_smaller = right.bound is not None and (left.bound is None or right.bound <= left.bound)
    for is_right, given in ((True, right), (False, left)):
        is_hinted = hinted[0] if is_right else hinted[1]
        if is_hinted and given.bound is not None and given.bound <= BROADCAST:
            right_is_smaller = is_right
            break
    smaller = right.bound if right_is_smaller else left.bound
    if smaller is not None and smaller <= BROADCAST:
        if lone and on:
            other, one = (
                (other.hint("shuffle_hash"), one)
                if right_is_smaller
                else (other, one.hint("shuffle_hash"))
            )
        elif right_is_smaller:
            other = sf.broadcast(other)
        else:
            one = sf.broadcast(one)
    frame = one.join(other, on) if on else one.crossJoin(other)
    return FrameRows(frame, None, lone)


def _all(conditions: Sequence[Column]) -> Column:
    return reduce(lambda a, b: a & b, conditions)


def _names(width: int) -> list[Any]:
    return [sf.col(f"c{i}") for i in range(max(width, 1))]
