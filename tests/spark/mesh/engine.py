"""An engine for tests: recursive cliques by parts side by side, the others embedded."""

from collections.abc import Mapping

import pyarrow as pa
from tests.spark.mesh.together import run_parts

from caladan.engines.embedded.engine import EmbeddedEngine, given_facts
from caladan.engines.embedded.tables import LoadedTable
from caladan.engines.interface import Table
from caladan.engines.spark.mesh.shard import Shard
from caladan.engines.spark.mesh.skew import SkewLimits
from caladan.program.diagnostics import CaladanError
from caladan.program.events import Listener
from caladan.program.options import Options
from caladan.rules.program import DeltaProgram, program_of

SPLITTING = {
    "never": SkewLimits(0),
    "often": SkewLimits(share=1e-6, least=1),  # every value that could be split is
    "sometimes": SkewLimits(share=1.0, least=1),
}


class PartsEngine(EmbeddedEngine):
    """Evaluates delta programs with several parts in this process."""

    def __init__(
        self,
        tasks: int,
        *,
        local: bool = False,
        splitting: SkewLimits = SkewLimits(),  # noqa: B008
    ) -> None:
        super().__init__()
        self.tasks, self.local, self.splitting = tasks, local, splitting
        self.heavy = 0

    def run(
        self, program: DeltaProgram, store: Mapping[str, Table], options: Options, events: Listener
    ) -> dict[str, Table]:
        tables = dict(store)
        for clique in program.cliques:
            sub = program_of(program, [clique])
            if clique.is_recursive:
                given = given_facts(sub, tables)
                parts = self.parts(sub, given)
                for name in clique.relations:
                    owned = [part.owned(name).arrow() for part in parts]
                    found = owned[0] if not owned[0].num_columns else pa.concat_tables(owned)
                    tables[name] = LoadedTable(program.relations[name].columns, found)
            else:
                tables.update(super().run(sub, tables, options, events))
        derived = [name for name, info in program.relations.items() if info.is_derived]
        return {name: tables[name] for name in derived}

    def parts(self, program: DeltaProgram, given: Mapping[str, pa.Table]) -> list[Shard]:
        """The parts of a recursive clique after their last round."""
        parts, endings = run_parts(
            program, given, self.tasks, local=self.local, splitting=self.splitting
        )
        for ending in endings:
            if ending.failure is not None:
                raise ending.failure
            if ending.reached is not None:
                raise CaladanError(*ending.reached.diagnostics)
        self.heavy += parts[0].heavy
        return parts
