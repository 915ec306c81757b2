"""A random program as SQL, evaluated by DuckDB: plain rules, linear recursion, aggregates, cuts.

Each derived relation becomes a table, in program order; one that reads itself is a recursive CTE
with UNION. A relation without columns has a column that is always 1.
"""

from collections.abc import Mapping
from typing import Any

import duckdb
from tests.strategies.random_programs import STORED, RandomProgram

from caladan.program import (
    Aggregate,
    Arithmetic,
    Atom,
    Choice,
    Comparison,
    Conditional,
    Constant,
    Disjunction,
    Expression,
    Goal,
    Literal,
    Rule,
    Variable,
    variables,
)

SQL_KINDS = ("plain", "linear", "aggregate", "cut")
"""The kinds of layers that can be said in SQL."""

TYPES = {"i": "BIGINT", "s": "VARCHAR", "d": "DOUBLE", "a": "DOUBLE"}
OPERATORS = {"~=": "<>", "mod": "%", "div": "//"}

Row = tuple[Any, ...]


def answers(given: RandomProgram) -> list[list[Row]]:
    """What DuckDB answers to each goal."""
    database = duckdb.connect()
    for name, kinds in STORED.items():
        columns = ", ".join(f"C{i} {TYPES[kind]}" for i, kind in enumerate(kinds))
        database.execute(f"CREATE TABLE {name} ({columns})")
        if given.facts[name]:
            marks = ", ".join("?" for _ in kinds)
            database.executemany(f"INSERT INTO {name} VALUES ({marks})", given.facts[name])
    for name, kinds in given.kinds.items():
        rules = [rule for rule in given.program.rules if rule.head.relation == name]
        database.execute(f"CREATE TABLE {name} AS {relation(name, kinds, rules)}")
    return [
        matching(goal, _rows(database, goal.atom.relation, len(goal.atom.arguments)))
        for goal in given.program.goals
    ]


def matching(goal: Goal, rows: list[Row]) -> list[Row]:
    """The rows that match a goal's constants and repeated variables."""
    arguments = goal.atom.arguments

    def matches(row: Row) -> bool:
        values: dict[str, Any] = {}
        return all(
            value == argument.value
            if isinstance(argument, Constant)
            else values.setdefault(argument.name, value) == value
            for argument, value in zip(arguments, row, strict=True)
            if isinstance(argument, Constant | Variable)
        )

    return [row for row in rows if matches(row)]


def relation(name: str, kinds: str, rules: list[Rule]) -> str:
    """The query for a relation."""
    if any(isinstance(a, Aggregate) for rule in rules for a in rule.head.arguments):
        return _aggregated(kinds, rules)
    if rules[0].limit is not None:
        return _cut(kinds, rules[0])
    exits = [_select(rule, kinds) for rule in rules if not _reads(rule, name)]
    steps = [_select(rule, kinds) for rule in rules if _reads(rule, name)]
    if not steps:
        return f"SELECT DISTINCT * FROM ({' UNION '.join(exits)})"
    columns = ", ".join(f"C{i}" for i in range(max(len(kinds), 1)))
    return (
        f"WITH RECURSIVE {name}({columns}) AS "
        f"(({' UNION '.join(exits)}) UNION ({' UNION '.join(steps)})) SELECT * FROM {name}"
    )


def _aggregated(kinds: str, rules: list[Rule]) -> str:
    solutions = " UNION ALL ".join(_select(rule, "") for rule in rules)
    groups: list[str] = []
    columns: list[str] = []
    functions: list[str] = []
    for i, (argument, kind) in enumerate(zip(rules[0].head.arguments, kinds, strict=True)):
        if isinstance(argument, Aggregate):
            functions.append(argument.function)
            columns.append(
                f"CAST({_function(argument.function, f'C{i}')} AS {TYPES[kind]}) AS C{i}"
            )
        else:
            groups.append(f"C{i}")
            columns.append(f"CAST(C{i} AS {TYPES[kind]}) AS C{i}")
    query = f"SELECT {', '.join(columns)} FROM ({solutions})"
    if groups:
        return f"{query} GROUP BY {', '.join(groups)}"
    totals = all(function in ("sum", "count", "countd") for function in functions)
    return query if totals else f"{query} HAVING count(*) > 0"


def _function(function: str, column: str) -> str:
    match function:
        case "count":
            return "count(*)"
        case "countd":
            return f"count(DISTINCT {column})"
        case "sum":
            return f"coalesce(sum({column}), 0)"
        case _:
            return f"{function}({column})"


def _cut(kinds: str, rule: Rule) -> str:
    positions = {a.name: i for i, a in enumerate(rule.head.arguments) if isinstance(a, Variable)}
    keys = [
        f"C{positions[key.variable.name]} {'DESC' if key.descending else 'ASC'}"
        for key in rule.order
    ]
    keys += [f"C{i}" for i in range(max(len(kinds), 1))]
    assert isinstance(rule.limit, Constant)
    return (
        f"SELECT * FROM (SELECT DISTINCT * FROM ({_select(rule, kinds)})) "
        f"ORDER BY {', '.join(keys)} LIMIT {rule.limit.value}"
    )


def _select(rule: Rule, kinds: str) -> str:
    """A rule's solutions as rows of its head, cast to the kinds if they are given."""
    names: dict[str, str] = {}
    conditions: list[str] = []
    tables: list[str] = []
    for literal in rule.body:
        if isinstance(literal, Atom) and not literal.negated:
            alias = f"t{len(tables)}"
            tables.append(f"{literal.relation} AS {alias}")
            for i, argument in enumerate(literal.arguments):
                if isinstance(argument, Constant):
                    conditions.append(f"{alias}.C{i} = {_value(argument, names)}")
                elif isinstance(argument, Variable) and argument.name in names:
                    conditions.append(f"{alias}.C{i} = {names[argument.name]}")
                elif isinstance(argument, Variable) and not argument.is_anonymous:
                    names[argument.name] = f"{alias}.C{i}"
    tests: list[Literal] = []
    for literal in rule.body:
        if "N" not in names and isinstance(literal, Comparison) and _binds(literal):
            names["N"] = _bound(literal, names)
        elif not isinstance(literal, Atom) or literal.negated:
            tests.append(literal)
    conditions += [_condition(literal, names) for literal in tests]
    columns = [
        f"CAST({_head(argument, names)} AS {TYPES[kinds[i]]}) AS C{i}"
        if kinds
        else f"{_head(argument, names)} AS C{i}"
        for i, argument in enumerate(rule.head.arguments)
    ] or ["1 AS C0"]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {', '.join(columns)} FROM {', '.join(tables)}{where}"


def _head(argument: Expression, names: Mapping[str, str]) -> str:
    if not isinstance(argument, Aggregate):
        return _value(argument, names)
    (term,) = argument.terms
    return "1" if isinstance(term, Variable) and term.is_anonymous else _value(term, names)


def _binds(comparison: Comparison) -> bool:
    """Whether a comparison gives N its value."""
    one, other = comparison.left, comparison.right
    if isinstance(other, Arithmetic) and other.operator in ("+", "-"):
        return other.right == Variable("N")
    mentioned = {variable.name for variable in variables(other)}
    return comparison.operator == "=" and one == Variable("N") and "N" not in mentioned


def _bound(equality: Comparison, names: Mapping[str, str]) -> str:
    """What N must be for `N = value` or `known = value + N` or `known = value - N` to hold."""
    if equality.left == Variable("N"):
        return _value(equality.right, names)
    known, summed = _value(equality.left, names), equality.right
    assert isinstance(summed, Arithmetic)
    value = _value(summed.left, names)
    return f"({known} - {value})" if summed.operator == "+" else f"({value} - {known})"


def _condition(literal: Literal, names: Mapping[str, str]) -> str:
    match literal:
        case Comparison():
            operator = OPERATORS.get(literal.operator, literal.operator)
            return f"{_value(literal.left, names)} {operator} {_value(literal.right, names)}"
        case Choice():
            test = " AND ".join(_condition(c, names) for c in literal.condition)
            then = " AND ".join(_condition(c, names) for c in literal.then)
            otherwise = " AND ".join(_condition(c, names) for c in literal.otherwise)
            return f"CASE WHEN {test} THEN {then} ELSE {otherwise} END"
        case Disjunction():
            branches = (
                " AND ".join(_condition(part, names) for part in branch)
                for branch in literal.branches
            )
            return f"(({') OR ('.join(branches)}))"
        case Atom():
            matches = [
                f"x.C{i} = {_value(argument, names)}"
                for i, argument in enumerate(literal.arguments)
                if not (isinstance(argument, Variable) and argument.is_anonymous)
            ]
            where = f" WHERE {' AND '.join(matches)}" if matches else ""
            return f"NOT EXISTS (SELECT 1 FROM {literal.relation} AS x{where})"


def _value(node: Expression, names: Mapping[str, str]) -> str:
    match node:
        case Variable():
            return names[node.name]
        case Constant():
            return f"'{node.value}'" if isinstance(node.value, str) else repr(node.value)
        case Arithmetic():
            operator = OPERATORS.get(node.operator, node.operator)
            return f"({_value(node.left, names)} {operator} {_value(node.right, names)})"
        case Conditional():
            test = " AND ".join(_condition(c, names) for c in node.condition)
            then, otherwise = _value(node.then, names), _value(node.otherwise, names)
            return f"(CASE WHEN {test} THEN {then} ELSE {otherwise} END)"
        case _:
            raise TypeError(f"random programs have no {node}")


def _reads(rule: Rule, name: str) -> bool:
    return any(isinstance(literal, Atom) and literal.relation == name for literal in rule.body)


def _rows(database: duckdb.DuckDBPyConnection, name: str, arity: int) -> list[Row]:
    found = database.execute(f"SELECT DISTINCT * FROM {name}").fetchall()
    return found if arity else [() for _ in found]
