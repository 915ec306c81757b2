"""Random programs with random facts, for engines to agree on.

`random_programs()` makes a `RandomProgram`: some stored relations with a few facts each, and on top
of them, layer by layer, derived relations of the kinds asked for:

    plain        rules over earlier relations: joins, comparisons, arithmetic, negation, `if`
    linear       a relation that reads itself once
    nonlinear    a relation that reads itself twice
    mutual       two relations that read each other
    aggregate    min max sum count countd avg over earlier relations, several rules
    monotone     mmin, mmax, msum, mcount in recursion, in shapes that come to an end
    cut          sort and limit

Every program is safe, stratified and comes to an end: recursive rules compute only modulo a small
number, so that there are finitely many values.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from hypothesis import strategies as st
from tests.strategies.random_graphs import graphs
from tests.strategies.random_rules import VALUES, Rules, Signature

from caladan.language.deals import unparse
from caladan.program import (
    Aggregate,
    Arithmetic,
    Atom,
    Column,
    Comparison,
    Conditional,
    Constant,
    Declaration,
    Expression,
    Head,
    Program,
    Rule,
    SortKey,
    Type,
    Variable,
)

KINDS = ("plain", "linear", "nonlinear", "mutual", "aggregate", "monotone", "cut")

STORED = {"e": "ii", "f": "ii", "dag": "ii", "n": "i", "s": "is", "w": "iid"}
"""The stored relations, with the kinds of their columns; `dag` has no cycle."""

AGGREGATES: tuple[str, ...] = ("min", "max", "sum", "count", "countd", "avg")
TYPES = {"i": Type.INTEGER, "s": Type.STRING, "d": Type.DOUBLE}
Facts: TypeAlias = dict[str, list[tuple[Any, ...]]]


@dataclass(frozen=True)
class RandomProgram:
    """A program, the facts of its stored relations, and the kinds of its derived columns.

    Shown as text where a test fails.
    """

    program: Program
    facts: Facts
    kinds: dict[str, str]

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        facts = "\n".join(f"% {name}: {rows}" for name, rows in self.facts.items())
        printer.text(f"\n{unparse(self.program)}\n{facts}\n")


@st.composite
def random_programs(
    draw: st.DrawFn, kinds: Sequence[str] = KINDS, layers: int = 4
) -> RandomProgram:
    """Programs with up to so many layers of the given kinds."""
    maker = _Layers(draw)
    for number in range(draw(st.integers(1, layers))):
        getattr(maker, draw(st.sampled_from(kinds)))(f"r{number}")
    relations = tuple(
        Declaration(name, tuple(Column(f"C{i}", TYPES[k]) for i, k in enumerate(columns)))
        for name, columns in STORED.items()
    )
    goals = tuple(maker.goal(signature) for signature in maker.derived)
    program = Program(relations, tuple(maker.rules), goals)
    return RandomProgram(program, draw(facts()), {d.name: d.kinds for d in maker.derived})


@st.composite
def facts(draw: st.DrawFn, most: int = 8) -> Facts:
    """Facts for the stored relations: few that are anyhow, or a graph of some kind."""
    found = {
        name: draw(
            st.lists(
                st.tuples(*(st.sampled_from(VALUES[kind]) for kind in kinds)),
                max_size=most,
                unique=True,
            )
        )
        for name, kinds in STORED.items()
    }
    for name in draw(st.sets(st.sampled_from([n for n, kinds in STORED.items() if kinds == "ii"]))):
        found[name] = draw(graphs(most))
    found["dag"] = [row for row in found["dag"] if row[0] < row[1]]
    return found


class _Layers(Rules):
    """Draws layers; each reads the stored relations and the layers before it."""

    def __init__(self, draw: st.DrawFn) -> None:
        super().__init__(draw, [Signature(name, kinds) for name, kinds in STORED.items()])
        self.derived: list[Signature] = []

    def signature(self, name: str) -> Signature:
        return Signature(name, self.draw(st.sampled_from(["", "i", "ii", "is", "id", "iii", "s"])))

    def add(self, made: Signature) -> None:
        self.derived.append(made)
        if "a" not in made.kinds:
            self.known.append(made)

    # ── Layers ───────────────────────────────────────────────────────────────────────────────────

    def plain(self, name: str) -> None:
        made = self.signature(name)
        for _ in range(self.draw(st.integers(1, 2))):
            self.rule(made, [])
        self.add(made)

    def linear(self, name: str) -> None:
        made = self.signature(name)
        self.rule(made, [], bounded=True)
        for _ in range(self.draw(st.integers(1, 2))):
            self.rule(made, [made], bounded=True)
        self.add(made)

    def nonlinear(self, name: str) -> None:
        made = self.signature(name)
        self.rule(made, [], bounded=True)
        self.rule(made, [made, made], bounded=True)
        self.add(made)

    def mutual(self, name: str) -> None:
        one, other = self.signature(f"{name}a"), self.signature(f"{name}b")
        self.rule(one, [], bounded=True)
        self.rule(other, [one], bounded=True)
        self.rule(one, self.draw(st.sampled_from([[other], [other, one]])), bounded=True)
        self.add(one)
        self.add(other)

    def aggregate(self, name: str) -> None:
        groups = self.draw(st.sampled_from(["", "i", "s", "is"]))
        functions = self.draw(st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=3))
        kinds = [self.draw(st.sampled_from("id")) for _ in functions]
        for _ in range(self.draw(st.integers(1, 2))):
            body, bound = self.body([], bounded=False)
            heads = [self.value(kind, bound) for kind in groups]
            for function, kind in zip(functions, kinds, strict=True):
                heads.append(self.aggregated(function, kind, bound))
            self.rules.append(Rule(Head(name, tuple(heads)), tuple(body)))
        results = [_result(f, k) for f, k in zip(functions, kinds, strict=True)]
        self.add(Signature(name, groups + "".join(results)))

    def monotone(self, name: str) -> None:
        shapes = [self.shortest, self.widest, self.paths, self.materials, self.party]
        self.draw(st.sampled_from(shapes))(name)

    def cut(self, name: str) -> None:
        made = self.signature(name)
        body, bound = self.body([], bounded=False)
        names = sorted(n for names in bound.values() for n in names)
        order = [
            SortKey(Variable(variable), self.draw(st.booleans()))
            for variable in self.draw(
                st.lists(st.sampled_from(names), max_size=2, unique=True) if names else st.just([])
            )
        ]
        head = [self.value(kind, bound) for kind in made.kinds]
        in_head = {a.name for a in head if isinstance(a, Variable)}
        limit = Constant(self.draw(st.integers(0, 4)))
        self.rules.append(
            Rule(
                Head(name, tuple(head)),
                tuple(body),
                tuple(key for key in order if key.variable.name in in_head),
                limit,
            )
        )
        self.add(made)

    # ── Aggregates in recursion ──────────────────────────────────────────────────────────────────

    def shortest(self, name: str) -> None:
        """Least costs over an arbitrary graph, each step costing something."""
        step = Constant(self.draw(st.integers(0, 3)))
        cost = Arithmetic("+", Variable("C"), step)
        self.propagated(name, "mmin", cost, self.pair())

    def widest(self, name: str) -> None:
        """Greatest values over an arbitrary graph, none greater than a bound."""
        bound = Constant(self.draw(st.integers(0, 5)))
        less = (Comparison("<", Variable("C"), bound),)
        self.propagated(name, "mmax", Conditional(less, Variable("C"), bound), self.pair())

    def propagated(self, name: str, function: str, value: Expression, graph: str) -> None:
        def head(variable: str) -> Head:
            value = Aggregate(function, (Variable("V"),))
            return Head(name, (Variable(variable), value))

        start = Atom(self.pair(), (Variable("X"), Variable("V")))
        step = Atom(graph, (Variable("X"), Variable("Y")))
        known = Atom(name, (Variable("X"), Variable("C")))
        self.rules.append(Rule(head("X"), (start,)))
        self.rules.append(Rule(head("Y"), (known, step, Comparison("=", Variable("V"), value))))
        self.add(Signature(name, "ii"))

    def paths(self, name: str) -> None:
        """The number of paths of a graph without cycles."""
        total = Aggregate("msum", (Variable("N"),))
        witnessed = Aggregate("msum", (Variable("X"), Variable("N")))
        one = Comparison("=", Variable("N"), Constant(1))
        start = Rule(Head(name, (Variable("Y"), total)), (Atom("n", (Variable("Y"),)), one))
        step = Rule(
            Head(name, (Variable("Y"), self.draw(st.sampled_from([total, witnessed])))),
            (
                Atom(name, (Variable("X"), Variable("N"))),
                Atom("dag", (Variable("X"), Variable("Y"))),
            ),
        )
        self.rules += [start, step]
        self.add(Signature(name, "ii"))

    def materials(self, name: str) -> None:
        """Costs of parts of parts, with and without witnesses; quantities have any sign.

        A witness may have several solutions, and values rise and fall while the recursion runs.
        """
        x, y, c, v = (Variable(each) for each in "XYCV")
        quantity = Constant(self.draw(st.integers(-2, 2)))
        amount = self.draw(
            st.sampled_from([
                Arithmetic("*", quantity, c),
                Arithmetic("*", v, c),
                Arithmetic("+", c, Arithmetic("*", quantity, v)),
                Arithmetic("-", v, c),
            ])
        )  # fmt: skip
        below = (Atom(name, (x, c)), Atom("dag", (x, y)), Atom(self.pair(), (x, v)))
        steps: list[Expression] = [
            Aggregate("msum", (amount,)),
            Aggregate("msum", (x, amount)),
            Aggregate("msum", (Constant(1), amount)),
            Aggregate("msum", (v, amount)),
            amount,  # a plain value is an amount of its solution
        ]
        start = Aggregate("msum", self.draw(st.sampled_from([(v,), (v, v), (Constant(1), v)])))
        self.rules.append(Rule(Head(name, (x, start)), (Atom(self.pair(), (x, v)),)))
        for step in self.draw(st.lists(st.sampled_from(steps), min_size=1, max_size=2)):
            self.rules.append(Rule(Head(name, (y, step)), below))
        self.add(Signature(name, "ii"))

    def party(self, name: str) -> None:
        """Who comes if enough friends come: a count inside a mutual recursion."""
        x, y, n = Variable("X"), Variable("Y"), Variable("N")
        count = f"{name}c"
        counted = self.draw(
            st.sampled_from([Aggregate("mcount", (x, Constant(1))), Aggregate("mcount", (x,))])
        )
        least = Constant(self.draw(st.integers(1, 3)))
        self.rules += [
            Rule(Head(name, (x,)), (Atom("n", (x,)),)),
            Rule(Head(name, (y,)), (Atom(count, (y, n)), Comparison(">=", n, least))),
            Rule(Head(count, (y, counted)), (Atom(name, (x,)), Atom(self.pair(), (y, x)))),
        ]
        self.add(Signature(name, "i"))
        self.add(Signature(count, "ii"))

    def pair(self) -> str:
        """A relation of two whole numbers that is finished."""
        return self.draw(st.sampled_from([k.name for k in self.known if k.kinds == "ii"]))


def _result(function: str, kind: str) -> str:
    return {"count": "i", "countd": "i", "avg": "a"}.get(function, kind)


def free(program: Program) -> Program:
    """The program with goals that bind nothing: every row of what was asked for."""
    return replace(
        program,
        goals=tuple(
            replace(
                goal,
                atom=replace(
                    goal.atom,
                    arguments=tuple(Variable(f"V{i}") for i in range(len(goal.atom.arguments))),
                ),
            )
            for goal in program.goals
        ),
    )
