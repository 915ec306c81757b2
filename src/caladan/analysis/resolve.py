"""What names stand for: every atom and goal finds its relation, every parameter its value.

`resolve(program, catalog)` gives the arity of every relation: those declared in the program, those
the catalog knows (data that was added), and those with rules. It reports C010 unknown relation,
C011 wrong number of arguments, C017 declared twice, C021 query on an undefined relation.

`parameters(program, values)` replaces every `{name}` and `$Name` by the value given for it. Values
are bound as constants of the program, never pasted into text. Unknown parameters are C020. The
constants say which parameter they are from, so what was compiled with one value can be given
another: `refill`. It is the program that would have been compiled if both are of one type, for
the analysis reads of values no more than that; but for limits, which it turns into numbers.
`signature` has all that compiling depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Final, TypeVar

from caladan.analysis.core import HasFacts, RelationInfo, with_open
from caladan.analysis.named_columns import column_terms
from caladan.analysis.type_check import constant_type
from caladan.program import (
    Atom,
    Call,
    Column,
    Comparison,
    Constant,
    Declaration,
    Parameter,
    Placeholder,
    Program,
    Rule,
    Value,
    atoms,
)
from caladan.program.diagnostics import Diagnostics, RelatedSpan, Span, did_you_mean
from caladan.program.functions import FUNCTIONS
from caladan.program.objects import Objects
from caladan.program.transform import replace_in, walk


@dataclass(frozen=True, slots=True)
class KnownRelation:
    """A relation by its name, how many columns it has and where that was said."""

    arity: int
    span: Span | None
    columns: tuple[Column, ...] | None
    takes_data: bool


def resolve(
    program: Program,
    catalog: Mapping[str, tuple[Column, ...]],
    found: Diagnostics,
    suggested: Iterable[str] = (),
) -> dict[str, KnownRelation]:
    """What every name of the program stands for; `suggested` are names it might have meant."""
    known = {r.name: r for r in _declare(program.relations, found)}
    for name, columns in catalog.items():
        if name not in known:
            known[name] = Declaration(name, columns)
    suggested = tuple(suggested)
    table = {
        name: KnownRelation(len(r.columns), r.span, r.columns, takes_data=True)
        for name, r in known.items()
    }
    for rule in program.rules:
        head = rule.head
        if rule.time != "now":
            found.add(
                "C074",
                f"a rule for `{head.relation}` is for later (@{rule.time}), which needs ticks",
                rule.span,
                help="run it in ticks with bloom.program(text); in a batch run every rule takes "
                "effect at once",
            )
        arity = len(column_terms(head.arguments))
        if head.relation not in table:
            table[head.relation] = KnownRelation(arity, head.span, None, takes_data=False)
        _check(head.relation, arity, head.span, table, found)
    for rule in program.rules:
        for atom in atoms(rule.body):
            if atom.relation not in table:
                found.add(
                    "C010",
                    f"unknown relation `{atom.relation}`",
                    atom.span,
                    help=did_you_mean(atom.relation, (*table, *suggested))
                    or did_you_mean(atom.relation, _TESTS)
                    or f"declare it with database({{{_declaration(atom)}}}), "
                    "add data for it, or write a rule for it",
                )
            else:
                _check(atom.relation, len(atom.arguments), atom.span, table, found)
    for goal in program.goals:
        atom = goal.atom
        if atom.relation not in table:
            kind = "export" if goal.export else "query"
            found.add(
                "C021",
                f"{kind} on `{atom.relation}`, which has neither rules nor data",
                atom.span,
                help=did_you_mean(atom.relation, (*table, *suggested))
                or "write a rule for it, or add data for it",
            )
        else:
            _check(atom.relation, len(atom.arguments), atom.span, table, found)
    return table


_TESTS: Final = {
    name: row
    for name, row in FUNCTIONS.items()
    if all(each.result == "boolean" for each in row.overloads)
}
"""The functions that give true or false."""


def predicates(program: Program, catalog: Collection[str]) -> Program:
    """The program with calls where a function that gives true or false stands as an atom.

    `p(X) <- q(X), contains(X, "a")` tests `contains(X, "a") = true`, unless there is a relation
    of that name.
    """
    known = {r.name for r in program.relations} | {r.head.relation for r in program.rules}

    def called(node: object) -> Comparison | None:
        if not isinstance(node, Atom) or node.relation in known or node.relation in catalog:
            return None
        row = _TESTS.get(node.relation)
        if row is None or row.complaint(len(node.arguments)) is not None:
            return None
        call = Call(row.name, node.arguments, node.span)
        return Comparison("=", call, Constant(not node.negated), node.span)

    rules = tuple(replace(rule, body=replace_in(rule.body, called)) for rule in program.rules)
    return replace(program, rules=rules)


def unsound(program: Program, known: Mapping[str, KnownRelation]) -> frozenset[int]:
    """The places of the rules that mention what is not known, or with other arguments."""
    return frozenset(
        i
        for i, rule in enumerate(program.rules)
        if not all(
            name in known and known[name].arity == arity
            for name, arity in (
                (rule.head.relation, len(rule.head.arguments)),
                *((a.relation, len(a.arguments)) for a in atoms(rule.body)),
            )
        )
    )


def _declare(relations: Iterable[Declaration], found: Diagnostics) -> Iterator[Declaration]:
    seen: dict[str, Declaration] = {}
    for relation in relations:
        first = seen.get(relation.name)
        if first is not None:
            if first != relation:
                found.add(
                    "C017",
                    f"`{relation.name}` is declared twice, with different columns",
                    relation.span,
                    related=[RelatedSpan("first declared here", first.span)] if first.span else [],
                )
            continue
        repeated = _find_repeated([c.name for c in relation.columns])
        if repeated:
            found.add(
                "C017",
                f"`{relation.name}` has two columns named `{repeated}`",
                relation.span,
                help="give every column a name of its own",
            )
        seen[relation.name] = relation
        yield relation


def _find_repeated(names: list[str]) -> str | None:
    return next((n for i, n in enumerate(names) if n in names[:i]), None)


def _check(
    name: str, arity: int, span: Span | None, table: Mapping[str, KnownRelation], found: Diagnostics
) -> None:
    known = table[name]
    if known.arity == arity:
        return
    declared = "declared here" if known.columns is not None else "first used here"
    found.add(
        "C011",
        f"`{name}` has {_columns(known.arity)}, but {arity} "
        f"{'argument is' if arity == 1 else 'arguments are'} given",
        span,
        related=[RelatedSpan(declared, known.span)] if known.span else [],
        help=None
        if known.columns is None
        else f"its columns are ({', '.join(c.name for c in known.columns)})",
    )


def _columns(arity: int) -> str:
    return "1 column" if arity == 1 else f"{arity} columns"


def _declaration(atom: Atom) -> str:
    columns = ", ".join(f"{chr(ord('A') + i % 26)}: integer" for i in range(len(atom.arguments)))
    return f"{atom.relation}({columns})"


T = TypeVar("T")


def parameters(program: Program, values: Mapping[str, Value], found: Diagnostics) -> Program:
    """The program with constants where parameters stood."""

    def bound(node: object) -> Constant | None:
        if not isinstance(node, Parameter):
            return None
        if node.name in values:
            return Constant(values[node.name], node.span, Placeholder(node.name))
        given = ", ".join(f"`{n}`" for n in sorted(values)) or "none"
        found.add(
            "C020",
            f"no value was given for the parameter `{node.name}` (given: {given})",
            node.span,
            help=did_you_mean(node.name, values)
            or f"pass params={{'{node.name}': …}}, or --param {node.name}=…",
        )
        return Constant(0, node.span)

    rules = tuple(rule if _is_fact(rule) else replace_in(rule, bound) for rule in program.rules)
    return replace(program, rules=rules, goals=replace_in(program.goals, bound))


def _is_fact(rule: Rule) -> bool:
    """Whether it has nothing but constants; of facts there may be many."""
    return not rule.body and all(isinstance(a, Constant) for a in rule.head.arguments)


def parameter_names(program: Program) -> frozenset[str]:
    """The names of the parameters that a program needs values for."""
    nodes = walk(program.rules, program.goals, program.expectations)
    return frozenset(node.name for node in nodes if isinstance(node, Parameter))


def signature(program: Program, values: Mapping[str, Value]) -> tuple[tuple[str, object], ...]:
    """What a compiled program depends on: the types of its parameters, and values of limits."""
    used = parameter_names(program)
    limits = walk(*(rule.limit for rule in program.rules))
    cut = {node.name for node in limits if isinstance(node, Parameter)}
    return tuple(
        (name, (constant_type(value), value) if name in cut else constant_type(value))
        for name, value in sorted(values.items())
        if name in used
    )


def refill(made: T, values: Mapping[str, Value], objects: Objects) -> T:
    """What was compiled, with other values; ValueError where one does not fit its column."""

    def change(part: object) -> object:
        match part:
            case Constant(placeholder=Placeholder(name, type)):
                value = values[name]
                return replace(part, value=value if type is None else objects.fit(value, type))
            case HasFacts():
                return _refill_facts(part, change)
            case RelationInfo():
                return part
            case _:
                return None

    return replace_in(made, change)


def _refill_facts(part: HasFacts, change: Callable[[object], object]) -> HasFacts:
    """Facts may be many: only those with parameters are looked at."""
    others = {name: part.facts[name][: -len(rows)] for name, rows in part.open_facts.items()}
    open_facts = replace_in(part.open_facts, change)
    facts = with_open({**part.facts, **others}, open_facts)
    rest = [each.name for each in fields(part) if each.name not in ("facts", "open_facts")]
    inside = {name: replace_in(getattr(part, name), change) for name in rest}
    return replace(part, **inside, facts=facts, open_facts=open_facts)
