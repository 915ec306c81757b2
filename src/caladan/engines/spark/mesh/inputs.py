"""What goes into a clique, encoded: the same in every task, whatever part of it the task has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from caladan.columns.domains import Domain
from caladan.columns.relation import StoredRelation
from caladan.engines.spark.mesh.checkpoint import fingerprint
from caladan.engines.spark.mesh.placement import RuleBody
from caladan.engines.spark.mesh.skew import HeavyValues, SkewInputs, Splitting, heavy_values
from caladan.fixpoint.blueprint import blueprint
from caladan.fixpoint.limits import Limits
from caladan.fixpoint.planner import Planner
from caladan.fixpoint.state import State
from caladan.join.classes import Classes
from caladan.rules.program import DeltaProgram


class MeshInputs:
    """The rules of a clique and the facts that go into it.

    `base` are the finished relations, `facts` what relations of the clique have from the start, as
    columns with their length; `heavy` are the values that are heavy as far as all that tells.
    `state` and `planner` are those of the run; `search` is the grade of the guided search that
    cyclic bodies go through, if they should.
    """

    def __init__(
        self,
        program: DeltaProgram,
        tables: Mapping[str, pa.Table],
        splitting: Splitting,
        tasks: int,
        limits: Limits,
        search: str | None = None,
    ) -> None:
        (self.clique,) = program.cliques
        self.program = program
        self.rules = (*self.clique.exit_rules, *self.clique.delta_rules)
        self.classes = Classes(program)
        words = self.classes.encode(tables)
        encoded = {name: [(columns, tables[name].num_rows)] for name, columns in words.items()}
        self.state = State(program, self.classes, encoded, limits, blueprint(program).orders)
        self.planner = Planner(self.state, search)
        self.base: dict[str, StoredRelation] = {}
        for name in program.relations:
            if name not in self.clique.relations:
                self.state.load(name)
                self.base[name] = self.state.relation(name)
        self.own = {name: program.relations[name] for name in self.clique.relations}
        self.recursive = [RuleBody.of(rule) for rule in self.clique.delta_rules]
        exits = [(rule.rule.head, rule.body.separated) for rule in self.clique.exit_rules]
        inputs = SkewInputs(words, exits, self.recursive, self.own, self.classes.column)
        self.heavy: HeavyValues = heavy_values(inputs, splitting, tasks)
        self.facts = {
            name: (words[name], tables[name].num_rows) for name in self.own if name in words
        }

    def domains(self) -> Iterator[tuple[tuple[str, int], Domain]]:
        """The domains that columns have, each once, with one of these columns."""
        seen: set[int] = set()
        for name, info in sorted(self.program.relations.items(), key=lambda item: item[0]):
            for column in range(info.arity):
                domain = self.classes.column(name, column)
                if id(domain) not in seen:
                    seen.add(id(domain))
                    yield (name, column), domain

    def fingerprint(self, *settings: object) -> str:
        """What a checkpoint belongs to; before `facts` are gone."""
        given: dict[str, StoredRelation] = dict(self.base)
        for name, (columns, rows) in self.facts.items():
            given[name] = relation = StoredRelation(self.classes.columns(name))
            relation.add(columns, rows)
            relation.flip()
            relation.commit()
        relations = {name: (each, self.classes.columns(name)) for name, each in given.items()}
        return fingerprint(self.program, relations, *settings)
