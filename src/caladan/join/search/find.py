"""Questions asked straight from Python: variables, a body, constraints as objects.

    find(relations, "person parent city",
         "lives_in(person, city), parent(person, parent), lives_in(parent, city)",
         city=one_of({"Arrakeen", "Carthag"}))

A question is a rule: its body is read as DeALS, goes through the same analysis, and its answers are
the solutions of that `Body`, by the guided search, with what else should hold as constraints that
are searched beside its atoms. Of a disjunction each branch is a body. The result is searched for as
it is consumed: asking for one answer of a huge join costs little.

In a body any name can be a variable: if it is listed as one, or begins with a capital letter; other
names are texts. `!` may stand for `~`.

    lives_in(person, city), parent(person, other), ~blocked(person), age >= 18, (x = 1 ; x = y + 2)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa

from caladan.columns.interner import Tuples
from caladan.join.arithmetic import blame_rule
from caladan.join.constraints.protocol import Var
from caladan.join.estimates import estimates, grade_named
from caladan.join.extend import ExtendStep, PerRow, solutions
from caladan.join.frontier import Bindings
from caladan.join.intersection import SearchBody, forget_unused
from caladan.join.plan import RulePlan
from caladan.join.search.library import Data, Library
from caladan.join.search.question import Question, Way
from caladan.join.search.triples import is_triples, triples
from caladan.join.statistics import Statistics
from caladan.language.deals import literals
from caladan.language.deals.cursor import Cursor, SyntaxFailure
from caladan.language.deals.tokens import END
from caladan.program import Constant, Literal, Value, Variable
from caladan.program.diagnostics import Diagnostics, SourceText, error
from caladan.program.transform import replace_in

_SHOWN: Final = 10
_TEXT_OR_MARK: Final = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|!""", re.DOTALL)


def find(
    relations: Mapping[str, Data] | Library,
    variables: str | Sequence[str],
    body: str = "",
    *constraints: object,
    search: str = "paul",
    width: int | None = None,
    **by_variable: object,
) -> Found:
    """The distinct bindings of some variables that satisfy a body and further constraints.

    `relations` are Arrow tables, data frames, lists of rows, or a `Library`, which keeps what it
    has encoded for the next question. `variables` are names, separated by blanks or as a sequence;
    other variables of the body begin with a capital letter.
    Both may be one text in triples, `"(find [?x ?y] [?x :parent ?y])"` (triples.py).
    `constraints` are objects with the methods of a constraint, or predicates on several variables;
    `by_variable` has a set, a range, a function or a constraint for one variable each.

    >>> parent = [("jessica", "paul"), ("paul", "leto"), ("paul", "ghanima")]
    >>> sorted(find({"parent": parent}, "old young", "parent(old, X), parent(X, young)"))
    [('jessica', 'ghanima'), ('jessica', 'leto')]
    """
    library = relations if isinstance(relations, Library) else Library(relations)
    listed = {*by_variable}
    if is_triples(variables):
        asked = triples(cast("str", variables))
        variables, listed = asked.asked, listed | asked.variables
        body = f"{asked.body}, {body}" if asked.body and body else asked.body or body
    names = tuple(variables.replace(",", " ").split() if isinstance(variables, str) else variables)
    for name in names:
        if not name.isidentifier() or name == "_":
            raise error("C050", f"`{name}` cannot be the name of a variable")
    if len(set(names)) < len(names):
        raise error("C050", "a variable is listed twice")
    grade_named(search)
    parsed = parse_body(body, listed.union(names))
    question = Question(
        library, names, parsed, [(None, c) for c in constraints] + [*by_variable.items()]
    )
    return Found(question, search, width)


class Found:
    """The answers of a `find`: an iterable of tuples. Every iteration searches anew."""

    def __init__(self, question: Question, grade: str, width: int | None) -> None:
        self.variables = question.names
        self.statistics = Statistics()
        self._grade = grade
        self._width = width
        self._domains = {name: question.domains[name] for name in question.names}
        self._plans = [(way, self._plan(way, question)) for way in question.ways]

    def __iter__(self) -> Iterator[tuple[Value, ...]]:
        for batch in self._distinct():
            columns = [
                domain.values(domain.coding.ranks(batch.columns[var]))
                for var, domain in self._domains.items()
            ]
            yield from zip(*columns, strict=True) if columns else [()] * batch.rows

    def count(self) -> int:
        """How many answers; this searches to the end."""
        return sum(batch.rows for batch in self._distinct())

    def arrow(self) -> pa.Table:
        """All answers as an Arrow table."""
        batches = list(self._distinct())
        columns: list[Any] = []
        for var, domain in self._domains.items():
            words = np.concatenate([np.empty(0, np.uint32), *(b.columns[var] for b in batches)])
            columns.append(domain.arrow(domain.coding.ranks(words)))
        return pa.table(columns, names=list(self.variables))

    def explain(self) -> str:
        """What each constraint of a variable would propose at the start, and what was proposed.

        Before the answers were asked for, only the estimates are known.
        """
        lines: list[str] = []
        for _, plan in self._plans:
            for step, wanted in self._searches(plan):
                body = SearchBody(forget_unused(step.constraints, frozenset(wanted)), wanted)
                lines += estimates(body, self._grade, self.statistics)
        return "\n".join(lines)

    def __repr__(self) -> str:
        shown = list(islice(self, _SHOWN + 1))
        more = ", …" if len(shown) > _SHOWN else ""
        return f"Found({', '.join(map(repr, shown[:_SHOWN]))}{more})"

    # ── Searching ────────────────────────────────────────────────────────────────────────────────

    def _plan(self, way: Way, question: Question) -> RulePlan:
        return RulePlan(
            way.body,
            question.relations,
            lambda scan: question.relations[scan.relation],
            {name: domain.coding for name, domain in way.domains.items()},
            lambda relation, column: question.columns[relation][column].coding,
            search=self._grade,
            constraints=way.constraints,
        )

    def _steps(self, plan: RulePlan) -> list[ExtendStep]:
        """The steps of a plan; the first answers of a search come in small pieces."""
        return [
            replace(
                step,
                choice=replace(step.choice, first=1, width=self._width, statistics=self.statistics),
            )
            if isinstance(step.choice, PerRow)
            else step
            for step in plan.steps()
        ]

    def _searches(self, plan: RulePlan) -> Iterator[tuple[ExtendStep, list[Var]]]:
        """The search among the steps of a plan, if there is one, and what it is to bind."""
        steps = self._steps(plan)
        for place, step in enumerate(steps):
            if isinstance(step.choice, PerRow):
                rest = (each.reads for each in steps[place + 1 :])
                yield step, step.wanted((), plan.body.needed.union(*rest))

    def _repeats(self, plan: RulePlan) -> bool:
        """Whether solutions may differ only in variables that nobody asked for."""
        asked = frozenset(self.variables)
        for step, wanted in self._searches(plan):
            searched = forget_unused(step.constraints, frozenset(wanted))
            if not asked.issuperset(frozenset(wanted).union(*(c.variables for c in searched))):
                return True
        return not asked

    def _distinct(self) -> Iterator[Bindings]:
        """Batches of words, each binding once."""
        self.statistics = Statistics()
        seen = Tuples(len(self.variables))
        repeats = len(self._plans) > 1 or any(self._repeats(plan) for _, plan in self._plans)
        for way, plan in self._plans:
            with blame_rule(way.rule):
                needed = way.body.needed
                for batch in solutions(self._steps(plan), Bindings(1, {}), needed, needed):
                    columns = {
                        name: plan.evaluator.words(Variable(name), batch, domain.coding)
                        for name, domain in self._domains.items()
                    }
                    found = Bindings(batch.rows, columns)
                    if repeats:
                        _, fresh = seen.ids(list(columns.values()), batch.rows)
                        rows = fresh.astype(np.uint32)
                        found = Bindings(len(fresh), found.at(rows, columns))
                    if found.rows:
                        yield found


def parse_body(text: str, variables: Collection[str], name: str = "<find>") -> tuple[Literal, ...]:
    """The literals of a body; names among `variables` are variables."""
    plain = _TEXT_OR_MARK.sub(lambda each: "~" if each[0] == "!" else each[0], text)
    found = Diagnostics()
    cursor = Cursor(SourceText(name, plain), found, whole="body")
    if cursor.kind == END:
        found.raise_errors()
        return ()
    try:
        body, cut = literals.body(cursor)
        if cursor.kind != END:
            cursor.fail("a comma or the end")
    except SyntaxFailure:
        found.raise_errors()
        raise
    found.raise_errors()
    if cut.order or cut.limit is not None:
        raise error("C051", "`find` returns answers as it finds them, so it cannot sort them")

    def named(node: Any) -> Variable | None:
        if isinstance(node, Constant) and node.span is not None and node.span.text in variables:
            return Variable(node.span.text, node.span)
        return None

    return replace_in(body, named)
