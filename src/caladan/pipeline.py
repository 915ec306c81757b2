"""The table of contents of the compiler: a Program goes in, every stage's artefact comes out.

    program ─ check ─► checked ─ demand ─► demanded ─ operators ─► operators ─ delta ─► delta

Pure: no data is read, nothing is run. `STAGES` lists what `explain` prints, in order; explain,
tests and docs go over it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from caladan.analysis.check import check
from caladan.analysis.core import Checked
from caladan.analysis.demand import Demanded, demand as restrict
from caladan.analysis.pcg import Pcg, pcg
from caladan.program import Column, Program, Value
from caladan.program.clock import look
from caladan.program.diagnostics import Diagnostic
from caladan.program.objects import Objects
from caladan.rules.delta import delta
from caladan.rules.operator_program import OperatorProgram, operators
from caladan.rules.program import DeltaProgram


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage that explain can print: its name, its heading and what it shows."""

    name: str
    heading: str
    shows: str


STAGES = (
    Stage("relations", "Relation Definition", "the relations that take data, with their types"),
    Stage("rules", "Datalog Rules", "the rules and goals as they were understood"),
    Stage("pcg", "PCG Tree", "rules and relations below the goals, with binding patterns"),
    Stage("operators", "Operator Program", "the relational operators of each rule"),
    Stage("delta", "Delta Program", "one rule for each atom that can bring new facts"),
    Stage("logical", "Unresolved Logical Plan", "the whole program as one plan, as it was written"),
    Stage("optimized", "Optimized Logical Plan", "the same as it is handed to an engine"),
    Stage("plan", "Physical Plan", "how the engine goes about it"),
    Stage("spark", "Spark Plans", "what Spark is handed, with its own plans of every frame"),
)


@dataclass(frozen=True, slots=True)
class Compiled:
    """Every artefact of a compilation."""

    program: Program
    checked: Checked
    demanded: Demanded
    operators: OperatorProgram
    delta: DeltaProgram

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What the analysis warns of."""
        return self.checked.warnings

    @property
    def pcg(self) -> Pcg:
        """The and-or tree, which only explain wants."""
        return pcg(self.demanded.patterns, self.demanded.wanted)


def compile_program(
    program: Program,
    catalog: Mapping[str, tuple[Column, ...]],
    params: Mapping[str, Value],
    *,
    demand: bool = True,
    wanted: Iterable[str] | None = None,
    suggested: Iterable[str] = (),
    objects: Objects | None = None,
    named_by_goals: bool = False,
) -> Compiled:
    """All stages. `catalog` has the columns of data that the program need not declare;

    `wanted` names relations to evaluate whole, besides what the goals ask for; `suggested` are
    names to offer where the program mentions one that is not known; `objects` numbers those among
    the constants. Columns are `named_by_goals` where rules were made of SQL.
    """
    checked = check(program, catalog, params, suggested, objects, named_by_goals=named_by_goals)
    look()
    demanded = restrict(checked, wanted, demand)
    look()
    operator_program = operators(demanded.checked)
    look()
    return Compiled(
        program,
        checked,
        demanded,
        operator_program,
        delta(operator_program),
    )
