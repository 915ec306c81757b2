"""The table of contents of the compiler: a Program goes in, every pass adds an artefact.

    Program ─ name_relations ─► NamedProgram ─ normalize_rules ─► CoreProgram ─ infer_types ─►
    TypedProgram ─ order_cliques ─► Checked ─ complete_missing ─► CompleteProgram ─ follow_demand ─►
    DemandProgram (its PCG) ─ watch_sums ─► SupportedProgram ─ generate_operators ─►
    OperatorProgram ─ plan_recursion ─► LogicalPlan ─ analyze_plan ─► LogicalPlan
    ─ optimize_plan ─► LogicalPlan ─ derive_delta ─► DeltaProgram

`PASSES` is the compiler: pure functions, each of which reads what the one before it made, and what
was asked. `compile_program` goes through all of them, `compile_until` up to the one that a stage
comes after. `STAGES` lists what `explain` prints, in order, each with that pass, `SCRIPT_STAGES`
what scripts of SQL have besides; explain, tests and docs go over them. No data is read, nothing is
run. `compile_again` gives what was compiled other values of its parameters, without going through
the passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias, TypeVar

from caladan.analysis.check import (
    NamedProgram,
    infer_types,
    normalize_rules,
    order_cliques,
    resolve_names,
)
from caladan.analysis.core import Checked, RelationInfo
from caladan.analysis.demand import DemandProgram, demand
from caladan.analysis.lint import lint
from caladan.analysis.missing import CompleteProgram, complete
from caladan.analysis.resolve import refill, signature
from caladan.analysis.written import WrittenProgram, keep_as_written
from caladan.program import Column, Program, Value
from caladan.program.clock import look
from caladan.program.diagnostics import Diagnostic
from caladan.program.objects import Objects
from caladan.rules.delta import derive_delta
from caladan.rules.logical import LogicalPlan, analyze_plan, optimize_plan, plan_recursion
from caladan.rules.operators import OperatorProgram, generate_operators
from caladan.rules.program import DeltaProgram, Totals
from caladan.rules.support import SupportedProgram, watch_sums

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
    """An artefact of each pass that was gone through, from `Checked` on, in their order."""

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
        return keep_as_written(
            asked.program, asked.catalog, self.checked, asked.params, asked.wanted, objects
        )

    @property
    def totals(self) -> dict[str, Totals | None]:
        """For each relation, what is known beforehand of the sums of its clique."""
        return {name: clique.totals for clique in self.delta.cliques for name in clique.relations}

    @property
    def operators(self) -> OperatorProgram:
        """The operators of each rule, as it was written."""
        return self._made(OperatorProgram)

    @property
    def unresolved(self) -> LogicalPlan:
        """The whole program as a plan, with names."""
        return self._after(plan_recursion)

    @property
    def analyzed(self) -> LogicalPlan:
        """The same with numbers and types for its columns."""
        return self._after(analyze_plan)

    @property
    def optimized(self) -> LogicalPlan:
        """The same as it is evaluated."""
        return self._after(optimize_plan)

    def _made(self, kind: type[T]) -> T:
        found = next((each for each in self.made if isinstance(each, kind)), None)
        assert found is not None, f"compiled without the pass that makes a {kind.__name__}"
        return found

    def _after(self, made_by: Pass) -> LogicalPlan:
        found = self.made[PASSES.index(made_by) - _FRONT + 1]
        assert isinstance(found, LogicalPlan)
        return found


# ── Passes ───────────────────────────────────────────────────────────────────────────────────────


def name_relations(_: Request, asked: Request) -> NamedProgram:
    """Every atom finds its relation, every parameter its value."""
    return resolve_names(
        asked.program, asked.catalog, asked.params, asked.suggested, asked.objects, asked.named,
        may_lack=bool(asked.nullable),
    )  # fmt: skip


def complete_missing(program: Checked, asked: Request) -> CompleteProgram:
    """Columns that may lack values come with one that says whether there is one."""
    return complete(program, asked.nullable)


def follow_demand(program: CompleteProgram, asked: Request) -> DemandProgram:
    """The PCG with its binding patterns, and the rules for what the goals ask for."""
    return demand(program.checked, asked.wanted, asked.demand)


Pass: TypeAlias = Callable[..., object]
"""From what the pass before it made to what the next one reads."""

PASSES: Final[tuple[Pass, ...]] = (
    name_relations, normalize_rules, infer_types, order_cliques, complete_missing, follow_demand,
    watch_sums, generate_operators, plan_recursion, analyze_plan, optimize_plan, derive_delta,
)  # fmt: skip

_ASKING: Final = (name_relations, complete_missing, follow_demand)
"""The passes that read what was asked, too."""

_FRONT: Final = PASSES.index(order_cliques) + 1
"""The passes of the analysis; what they make on the way to `Checked` is not kept."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage that explain can print: after which pass, its name, its heading and what it shows."""

    after: Pass
    name: str
    heading: str
    shows: str


STAGES: Final = tuple(
    Stage(after, name, heading, shows)
    for after, name, heading, shows in (
        (order_cliques, "relations", "Relation Definition", "relations that take data, with types"),
        (order_cliques, "rules", "Datalog Rules", "the rules and goals as they were understood"),
        (follow_demand, "pcg", "PCG Tree", "rules and relations below goals, with bindings"),
        (
            generate_operators,
            "operators",
            "Operator Program",
            "the relational operators of each rule",
        ),
        (plan_recursion, "logical", "Unresolved Logical Plan", "the whole program, with names"),
        (analyze_plan, "analyzed", "Analyzed Logical Plan", "columns with numbers and types"),
        (optimize_plan, "optimized", "Optimized Logical Plan", "the same as it is evaluated"),
        (derive_delta, "delta", "Delta Program", "a rule for each atom that can bring new facts"),
        (derive_delta, "plan", "Physical Plan", "how the engine goes about it"),
        (derive_delta, "spark", "Spark Plans", "what Spark is handed, with its plans of frames"),
    )
)

SQL: Final = Stage(order_cliques, "sql", "SQL", "the queries that a SQL engine runs, in order")
AGGREGATES: Final = Stage(
    order_cliques, "aggregates", "Recursive Aggregates", "whether min and max apply at each step"
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
            made = refill(known.made, request.params, objects)
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
    front, rest = PASSES[:_FRONT], PASSES[_FRONT : PASSES.index(stage.after) + 1]
    checked = list(_go_through(front, request, request))[-1]
    return Compiled(request, (checked, *_go_through(rest, checked, request)))


def compile_checked(checked: Checked, request: Request) -> Compiled:
    """The passes after the analysis."""
    return Compiled(request, (checked, *_go_through(PASSES[_FRONT:], checked, request)))


def _go_through(passes: Iterable[Pass], made: object, asked: Request) -> Iterator[object]:
    for each in passes:
        made = each(made, asked) if each in _ASKING else each(made)
        yield made
        look()
