"""What a task does with the facts of its cells: the embedded engine finds their solutions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.compute

from caladan.analysis.core import CoreAtom, CoreRule, RelationInfo
from caladan.engines.embedded.engine import EmbeddedEngine
from caladan.engines.embedded.tables import DerivedTable, LoadedTable
from caladan.engines.interface import Table
from caladan.engines.spark.cube.plan import CubeBody
from caladan.engines.spark.tasks.output import batches
from caladan.program import Column, Variable
from caladan.program.events import Listener
from caladan.program.options import Options
from caladan.rules.delta import plain
from caladan.rules.program import DeltaClique, DeltaProgram

compute: Any = pyarrow.compute
_SOLUTIONS: Final = "solutions"


def solutions(body: CubeBody, facts: Any) -> Iterator[pa.RecordBatch]:
    """The solutions among the facts of a cell, each once."""
    program = _program(body)
    store: dict[str, Table] = {}
    for number, atom in enumerate(body.atoms):
        mine = facts.filter(compute.equal(facts.column("atom"), number))
        if not mine.num_rows:
            return
        named = mine.select(list(body.slots(atom).values())).rename_columns(list(atom))
        name = f"atom{number}"
        store[name] = LoadedTable(program.relations[name].columns, named)
    tables = EmbeddedEngine().run(program, store, Options(), Listener())
    yield from batches(cast("DerivedTable", tables[_SOLUTIONS]))


def _program(body: CubeBody) -> DeltaProgram:
    relations = {
        f"atom{i}": _relation(f"atom{i}", [Column(v, body.types[v]) for v in atom], is_data=True)
        for i, atom in enumerate(body.atoms)
    }
    relations[_SOLUTIONS] = _relation(_SOLUTIONS, body.columns, is_data=False)
    atoms = [CoreAtom(f"atom{i}", tuple(map(Variable, atom))) for i, atom in enumerate(body.atoms)]
    rule = CoreRule(
        1, _SOLUTIONS, tuple(map(Variable, body.variables)), tuple(atoms), body.conditions,
        body.types,
    )  # fmt: skip
    clique = DeltaClique((_SOLUTIONS,), False, 0, (plain(rule, relations),), ())
    return DeltaProgram(relations, (clique,), (), facts={})


def _relation(name: str, columns: Sequence[Column], *, is_data: bool) -> RelationInfo:
    return RelationInfo(name, tuple(columns), is_data, not is_data, (None,) * len(columns), name)
