"""Named columns: `org(id: X, vat: V)` becomes `org(X, _, V, _)`, with every argument in its place.

    database({org(id: integer, name: string, vat: string, city: string)}).
    total(account: A, amount: sum<V>) <- tx(amount: V, account: A).
    rich(A) <- total(amount: V, account: A), V > 100.

`named_columns(program, catalog)` knows the columns of a relation by its declaration, its data, or
the first of its heads: the names that are written there, else its variables. An atom reads the
columns that it names and no others; a head names all of them. C011 where a name is no column ends
the analysis: arguments without a place make no sense to the passes after this one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from caladan.program import Aggregate, Atom, Column, Expression, Head, Program, Variable, atoms
from caladan.program.aggregates import row_of
from caladan.program.diagnostics import Diagnostics, Span, did_you_mean
from caladan.program.transform import replace_in


def named_columns(
    program: Program, catalog: Mapping[str, tuple[Column, ...]], found: Diagnostics
) -> tuple[Program, dict[str, tuple[str, ...]]]:
    """The program with arguments by position, and the columns that heads of relations name."""
    if not any(_is_named(program)):
        return program, {}
    columns = {name: tuple(c.name for c in known) for name, known in catalog.items()}
    columns.update((r.name, tuple(c.name for c in r.columns)) for r in program.relations)
    given = set(columns)
    written: dict[str, tuple[str, ...]] = {}
    for rule in program.rules:
        head = rule.head
        if head.relation in given:
            continue
        if head.columns and head.relation not in written:
            written[head.relation] = _columns_of(head)
        columns.setdefault(head.relation, head_names(column_terms(head.arguments)))
    columns.update(written)

    def place(node: object) -> object:
        if not isinstance(node, Atom | Head) or not node.columns:
            return None
        known = columns.get(node.relation)
        if known is None:  # no relation of this name: `resolve` reports it
            return replace(node, columns=())
        arguments = _place_arguments(node, known, found)
        return replace(node, arguments=arguments, columns=())

    rules = tuple(replace_in(rule, place) for rule in program.rules)
    placed = replace(
        program,
        rules=rules,
        goals=replace_in(program.goals, place),
    )
    found.raise_errors()  # what else is wrong would mostly follow from these
    return placed, written


def head_names(arguments: Sequence[Expression]) -> tuple[str, ...]:
    """Names for the columns of a head: its variables, each used once, else c1, c2 and so on."""
    names: list[str] = []
    for i, argument in enumerate(arguments):
        name = _name_of(argument)
        if name is None or name in names or name.startswith("_"):
            name = f"c{i + 1}"
        names.append(name)
    return tuple(names)


def _name_of(node: Expression) -> str | None:
    match node:
        case Variable():
            return node.name
        case Aggregate():
            return _name_of(node.terms[-1]) if node.terms else None
        case _:
            return None


def _is_named(program: Program) -> list[bool]:
    heads = [bool(rule.head.columns) for rule in program.rules]
    bodies = [bool(atom.columns) for rule in program.rules for atom in atoms(rule.body)]
    return [*heads, *bodies, *(bool(goal.atom.columns) for goal in program.goals)]


def column_terms(arguments: Sequence[Expression]) -> list[Expression]:
    """The columns of a head: a best value with its witnesses gives one for each term."""
    found: list[Expression] = []
    for argument in arguments:
        found += (argument, *_witnesses(argument))
    return found


def _witnesses(argument: Expression) -> tuple[Expression, ...]:
    """What follows the best value in `mmin<D, P>`: each gives a column of its own."""
    if not isinstance(argument, Aggregate) or row_of(argument).witness != "after":
        return ()
    return argument.terms[1:]


def _columns_of(head: Head) -> tuple[str, ...]:
    """The names that a head gives its columns; witnesses are named after their variables."""
    names: list[str] = []
    for name, argument in zip(head.columns, head.arguments, strict=True):
        extra = enumerate(_witnesses(argument), 1)
        names += (name, *(_name_of(each) or f"{name}{i}" for i, each in extra))
    return tuple(names)


def _place_arguments(
    node: Atom | Head, known: tuple[str, ...], found: Diagnostics
) -> tuple[Expression, ...]:
    """The arguments of an atom or a head, one for each column."""
    by_name: dict[str, Expression] = {}
    for name, argument in zip(node.columns, node.arguments, strict=True):
        span = argument.span or node.span
        if name not in known:
            found.add(
                "C011",
                f"`{node.relation}` has no column `{name}`",
                span,
                help=did_you_mean(name, known) or f"its columns are ({', '.join(known)})",
            )
        elif name in by_name:
            found.add("C011", f"`{name}` of `{node.relation}` is given twice", span)
        by_name[name] = argument
    if isinstance(node, Atom):
        return tuple(by_name.get(name, Variable("_", node.span)) for name in known)
    return _head_arguments(node, by_name, known, found)


def _head_arguments(
    head: Head, by_name: Mapping[str, Expression], known: tuple[str, ...], found: Diagnostics
) -> tuple[Expression, ...]:
    """A head has a value for every column; witnesses come with theirs."""
    arguments: list[Expression] = []
    missing: list[str] = []
    covered = 0
    for name in known:
        if covered:
            covered -= 1
            continue
        if name not in by_name:
            missing.append(name)
            continue
        argument = by_name[name]
        arguments.append(argument)
        covered = len(_witnesses(argument))
    if missing:
        _refuse(head, missing, head.span, found)
        return tuple(by_name.get(name, Variable("_", head.span)) for name in known)
    return tuple(arguments)


def _refuse(head: Head, missing: Sequence[str], span: Span | None, found: Diagnostics) -> None:
    columns = ", ".join(f"`{name}`" for name in missing)
    found.add(
        "C011",
        f"this head of `{head.relation}` has no value for {columns}",
        span,
        help="name every column of the relation, in any order",
    )
