"""What the SQL of a statement asks of its recursive views.

A statement has its query, and views that are not recursive: `ViewReading` knows both. Of a view it
may ask for what is bound to constants (demand.py), for excerpts (excerpts.py), for all, or
for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlglot import exp

from caladan.analysis.named_columns import head_names
from caladan.engines.interface import EngineStopped
from caladan.language.rasql.scope import KnownColumn, KnownTable
from caladan.language.rasql.script import Group, span_of, tables_of
from caladan.language.rasql.translate import column_names as names_of
from caladan.pipeline import Compiled, compile_program
from caladan.program import Program
from caladan.program.diagnostics import CaladanError
from caladan.program.transform import fresh
from caladan.sql.demand import ViewBindings, find_asked
from caladan.sql.engine import Frame, key_of
from caladan.sql.excerpts import Excerpt, Excerpts
from caladan.sql.names import SqlInputs, TableNames

Demands: TypeAlias = "Mapping[str, Sequence[ViewBindings] | None]"
"""What is asked of relations: all, what is bound to constants, or nothing (None)."""


@dataclass(slots=True)
class ViewReading:
    """The query of a statement, and those of its views that SQL evaluates, by name."""

    query: exp.Query
    groups: Sequence[Group]
    views: dict[str, exp.Query] = field(init=False)

    def __post_init__(self) -> None:
        self.views = {g.views[0].key: g.views[0].query for g in self.groups if not g.is_recursive}

    def demands(self, group: Group) -> dict[str, Sequence[ViewBindings] | None]:
        """What is asked of the views of a group, as the query stands."""
        others = [view for each in self.groups if each is not group for view in each.views]
        elsewhere = {name for view in others for name in view.reads}
        read = {view.key for view in group.views if view.key in elsewhere | tables_of(self.query)}
        return {
            view.key: None
            if read and view.key not in read
            else ()
            if view.key in elsewhere
            else find_asked(self.query, view)
            for view in group.views
        }

    def excerpts(
        self,
        group: Group,
        program: Program,
        demands: dict[str, Sequence[ViewBindings] | None],
        names: TableNames,
        inputs: SqlInputs,
        taken: set[str],
    ) -> list[Excerpt]:
        """Excerpts of views that are asked for in full, which SQL reads from now on.

        A view that nothing else reads is asked for no more. `taken` are names of relations.
        """
        recursive = [v for g in self.groups if g.is_recursive and g is not group for v in g.views]
        in_rules = {name for view in recursive for name in view.reads}
        relations = [goal.atom.relation for goal in program.goals]
        wanted = {
            view.key: (name, view)
            for name, view in zip(relations, group.views, strict=True)
            if demands[view.key] is not None
            and not demands[view.key]
            and view.key not in in_rules
            and view.key in tables_of(self.query).union(*map(tables_of, self.views.values()))
        }
        if not wanted:
            return []
        checked = compile_views(program).checked.relations
        known = {
            key: KnownTable(
                name,
                tuple(
                    KnownColumn(column, info.type)
                    for column, info in zip(names_of(view), checked[name].columns, strict=True)
                ),
                is_recursive=True,
            )
            for key, (name, view) in wanted.items()
        }

        def frame(table: exp.Table) -> Frame | None:
            if key_of(table) in self.views or key_of(table) in known:
                return None  # it is perhaps not there yet
            try:
                return names.frame(table)
            except EngineStopped:
                raise
            except CaladanError:
                return None  # whoever runs the query reports it

        def columns(table: exp.Table) -> frozenset[str] | None:
            found = frame(table)
            return found and frozenset(column.name.lower() for column in found.columns)

        def data(table: exp.Table) -> Frame | None:
            found = frame(table)
            return found if found is not None and found.tree is None else None

        def unused(stem: str) -> str:
            name = fresh(stem, taken | tables, str.lower)
            taken.add(name.lower())
            return name

        def evaluate(query: exp.Query, stem: str) -> str:
            return inputs.evaluate(query, stem, span_of(query, source)).relation

        trees = [self.query, *(view.query for each in self.groups for view in each.views)]
        tables = {node.name.lower() for tree in trees for node in tree.find_all(exp.Table)}
        tables |= {view.key for each in self.groups for view in each.views}
        source = group.views[0].source
        excerpts = Excerpts(known, columns, data, evaluate, unused, source)
        self.query, found = excerpts.of(self.query)
        for key, tree in self.views.items():
            self.views[key], more = excerpts.of(tree)
            found += more
        left = tables_of(self.query).union(*map(tables_of, self.views.values()))
        for key in wanted:
            if key not in left:
                demands[key] = None
        return found


def compile_views(program: Program, asked: Program | None = None) -> Compiled:
    """The rules of views in full, or with other goals; columns have the names of the program's."""
    named = {goal.atom.relation: head_names(goal.atom.arguments) for goal in program.goals}
    return compile_program(asked or program, {}, {}, named=named)
