"""The table of contents of the compiler: a Program goes in, every pass adds an artefact.

    program ─ checked ─► Checked ─ completed ─► CompleteProgram ─ demanded ─► DemandProgram ─
    watched ─► SupportedProgram ─ derived ─► DeltaProgram

`PASSES` is the compiler: pure functions, each of which takes what was made so far and adds one
artefact. `compile_program` goes through all of them, `compile_until` up to the one that a stage
comes after. `STAGES` lists what `explain` prints, in order, each with that pass, `SCRIPT_STAGES`
what scripts of SQL have besides; explain, tests and docs go over them. No data is read, nothing is
run. `compile_again` gives what was compiled other values of its parameters, without going through
the passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from caladan.analysis.check import check
from caladan.analysis.core import Checked, RelationInfo
from caladan.analysis.demand import DemandProgram, demand
from caladan.analysis.lint import lint
from caladan.analysis.missing import CompleteProgram, complete
from caladan.analysis.pcg import Pcg, pcg
from caladan.analysis.resolve import refilled, signature
from caladan.analysis.written import WrittenProgram, written
from caladan.program import Column, Program, Value
from caladan.program.clock import look
from caladan.program.diagnostics import Diagnostic
from caladan.program.objects import Objects
from caladan.rules.delta import delta
from caladan.rules.program import DeltaProgram, Totals
from caladan.rules.support import SupportedProgram, watch

if TYPE_CHECKING:
    from caladan.rules.operators import OperatorProgram

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be compiled.

    `catalog` has the columns of data that the program need not declare; `wanted` names relations to
    evaluate whole, besides what the goals ask for; `suggested` are names to offer where the program
    mentions one that is not known; `objects` numbers those among the constants. Goals drive
    evaluation if there is to be `demand`. Columns are `named` where rules are made of SQL.
    `materialized` relations are read as earlier runs left them, instead of by their rules.
    `nullable` has, by relation, the columns of data in which values are missing.
    """

    program: Program
    catalog: Mapping[str, tuple[Column, ...]]
    params: Mapping[str, Value]
    demand: bool = True
    wanted: tuple[str, ...] | None = None
    suggested: tuple[str, ...] = ()
    objects: Objects | None = None
    named: Mapping[str, Sequence[str]] | None = None
    materialized: tuple[str, ...] = ()
    own: int = 0
    """How many rules, from the first on, were written for this run: those that `lint` reads."""
    nullable: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])

    @property
    def meaning(self) -> tuple[object, ...]:
        """All that compiling depends on: of parameters their types, not their values."""
        kept = (self.program, self.catalog, self.demand, self.wanted, self.named, self.nullable)
        return (*kept, signature(self.program, self.params))


@dataclass(frozen=True, slots=True)
class Compiled:
    """What passes made of a program, as far as they went."""

    request: Request
    made: tuple[object, ...] = ()
    """An artefact of each pass that was gone through, in their order."""

    @property
    def program(self) -> Program:
        """The program as it was written."""
        return self.request.program

    @property
    def checked(self) -> Checked:
        """The program in core form."""
        return self._made(Checked)

    @property
    def complete(self) -> CompleteProgram:
        """The same without missing values."""
        return self._made(CompleteProgram)

    @property
    def demanded(self) -> DemandProgram:
        """What of it the goals need."""
        return self._made(DemandProgram)

    @property
    def supported(self) -> SupportedProgram:
        """The same, with what tells whether sums keep what they were given."""
        return self._made(SupportedProgram)

    @property
    def delta(self) -> DeltaProgram:
        """The delta rules, which are all that engines read."""
        return self._made(DeltaProgram)

    @property
    def relations(self) -> dict[str, RelationInfo]:
        """Those of the program as it was written, and what of them is evaluated."""
        return {**self.checked.relations, **self.delta.relations}

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What the analysis warns of."""
        return (*lint(self.program.rules[: self.request.own]), *self.checked.warnings)

    @property
    def written(self) -> WrittenProgram:
        """The checked program as it was written, which only the reference engine wants."""
        asked = self.request
        objects = asked.objects or Objects()
        return written(
            asked.program, asked.catalog, self.checked, asked.params, asked.wanted, objects
        )

    @property
    def totals(self) -> dict[str, Totals | None]:
        """For each relation, what is known beforehand of the sums of its clique."""
        return {name: clique.totals for clique in self.delta.cliques for name in clique.relations}

    @property
    def pcg(self) -> Pcg:
        """The and-or tree, which only explain wants."""
        return pcg(self.demanded.patterns, self.demanded.wanted)

    @property
    def operators(self) -> OperatorProgram:
        """The operators of each rule, which only explain wants."""
        from caladan.rules.operators import operators

        return operators(self.supported.checked)

    def _made(self, kind: type[T]) -> T:
        found = next((each for each in self.made if isinstance(each, kind)), None)
        assert found is not None, f"compiled without the pass that makes a {kind.__name__}"
        return found


# ── Passes ───────────────────────────────────────────────────────────────────────────────────────


def checked(compiled: Compiled) -> Checked:
    """Names, types, safety and strata are right, or all that is wrong is told."""
    asked = compiled.request
    return check(
        asked.program, asked.catalog, asked.params, asked.suggested, asked.objects, asked.named,
        may_lack=bool(asked.nullable),
    )  # fmt: skip


def completed(compiled: Compiled) -> CompleteProgram:
    """Columns that may lack values come with one that says whether there is one."""
    return complete(compiled.checked, compiled.request.nullable)


def demanded(compiled: Compiled) -> DemandProgram:
    """Rules for what the goals ask for, and no more."""
    return demand(compiled.complete.checked, compiled.request.wanted, compiled.request.demand)


def watched(compiled: Compiled) -> SupportedProgram:
    """Rules that add to sums are watched where they look at what still changes."""
    return watch(compiled.demanded.checked)


def derived(compiled: Compiled) -> DeltaProgram:
    """Bodies, one for each atom of a rule that can bring new facts."""
    return delta(compiled.supported.checked)


Pass: TypeAlias = Callable[[Compiled], object]

PASSES: Final[tuple[Pass, ...]] = (checked, completed, demanded, watched, derived)


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage that explain can print: after which pass, its name, its heading and what it shows."""

    after: Pass
    name: str
    heading: str
    shows: str


STAGES: Final = (
    Stage(
        checked, "relations", "Relation Definition", "relations that take data, with their types"
    ),
    Stage(checked, "rules", "Datalog Rules", "the rules and goals as they were understood"),
    Stage(
        demanded, "pcg", "PCG Tree", "rules and relations below the goals, with binding patterns"
    ),
    Stage(watched, "operators", "Operator Program", "the relational operators of each rule"),
    Stage(derived, "delta", "Delta Program", "one rule for each atom that can bring new facts"),
    Stage(derived, "logical", "Unresolved Logical Plan", "the whole program as it was written"),
    Stage(derived, "optimized", "Optimized Logical Plan", "the same as it is handed to an engine"),
    Stage(derived, "plan", "Physical Plan", "how the engine goes about it"),
    Stage(derived, "spark", "Spark Plans", "what Spark is handed, with its own plans of frames"),
)

SQL: Final = Stage(checked, "sql", "SQL", "the queries that a SQL engine runs, in order")
AGGREGATES: Final = Stage(
    checked, "aggregates", "Recursive Aggregates", "whether min and max may be applied at each step"
)
SCRIPT_STAGES: Final = (SQL, AGGREGATES)
"""What scripts of SQL show besides."""


def compile_program(
    program: Program,
    catalog: Mapping[str, tuple[Column, ...]],
    params: Mapping[str, Value],
    *,
    demand: bool = True,
    wanted: Iterable[str] | None = None,
    suggested: Iterable[str] = (),
    objects: Objects | None = None,
    named: Mapping[str, Sequence[str]] | None = None,
) -> Compiled:
    """All passes; `Request` says what the arguments mean."""
    asked = None if wanted is None else tuple(wanted)
    request = Request(program, catalog, params, demand, asked, tuple(suggested), objects, named)
    return compile_until(STAGES[-1], request)


def compile_again(known: Compiled | None, request: Request) -> Compiled:
    """The passes, or what they made of the same program, with other values of its parameters."""
    if known is not None and known.request.meaning == request.meaning:
        objects = request.objects or Objects()
        try:
            made = refilled(known.made, request.params, objects)
        except ValueError:
            pass  # a value does not fit: the passes know what to say
        else:
            return Compiled(request, made)
    return compile_until(STAGES[-1], request)


def compile_whole(compiled: Compiled) -> Compiled:
    """The same program, compiled without demand: every relation whole and under its own name."""
    return compile_until(STAGES[-1], replace(compiled.request, demand=False))


def with_missing(compiled: Compiled, nullable: Mapping[str, frozenset[str]]) -> Compiled:
    """The same program, over data in which values are missing in more columns."""
    before = compiled.request.nullable
    every = {
        name: before.get(name, frozenset()) | nullable.get(name, frozenset())
        for name in {**before, **nullable}
    }
    assert every != before, "a program is compiled again for what is new"
    return compile_until(STAGES[-1], replace(compiled.request, nullable=every))


def compile_until(stage: Stage, request: Request) -> Compiled:
    """The passes up to the one that a stage comes after."""
    compiled = Compiled(request)
    for each in PASSES[: PASSES.index(stage.after) + 1]:
        compiled = replace(compiled, made=(*compiled.made, each(compiled)))
        look()
    return compiled
