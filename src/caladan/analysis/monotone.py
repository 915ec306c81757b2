"""Recursion that may go wrong although it is allowed: warnings, and what is shown to be right.

`monotone(cliques)` looks at recursive rules:

- W101: a head column computed by arithmetic from the recursion itself, with no aggregate and no
  comparison to stop it, may produce new facts for ever;
- W102: a value that an aggregate of the same clique still improves is compared in a direction the
  improvement can undo (`mmin` values only fall, so `D > 5` may hold at first and not later).
- W103: a recursive relation without an exit rule, facts or data can never have facts.

`premappable(checked)` looks at `min` and `max` of SQL: may they be applied at every step? The
recursion keeps the best value of each group and carries on only that. This gives what applying the
aggregate once, at the end, would give if no step can turn a worse value into a better one: every
value a step computes must rise, or stay, when the value it reads rises, and no condition may hold
for a worse value but not for a better one. W104 where that is not shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal as OneOf, TypeAlias

from caladan.analysis.core import Checked, Clique, CoreRule, Facts, RelationInfo
from caladan.program import (
    Aggregate,
    Arithmetic,
    Call,
    Comparison,
    Conditional,
    Constant,
    Expression,
    Function,
    Negative,
    Variable,
    names,
    variables,
)
from caladan.program.aggregates import AggregateFunction, is_recursive_best
from caladan.program.diagnostics import Diagnostic, Diagnostics, Span
from caladan.program.functions import find
from caladan.program.operations import Operation


def monotone(
    cliques: Iterable[Clique],
    relations: Mapping[str, RelationInfo],
    facts: Facts,
    found: Diagnostics,
    generated: Collection[str] = (),
    clocks: Collection[str] = (),
) -> None:
    """Report what may not terminate or may depend on the order of evaluation.

    Relations that are `generated` have the rows that a function gives for finitely many inputs.
    Rules that wait for a clock see values that are final (stages.py).
    """
    for clique in cliques:
        if not clique.is_recursive:
            continue
        _find_starts(clique, relations, facts, found)
        for rule in clique.recursive_rules:
            waits = [atom for atom in rule.atoms if atom.relation in clocks]
            # Within a stage there are finitely many facts: only steps to the next may not end.
            is_made = rule.head in generated or rule.head in clocks
            if not is_made and (not waits or _steps_on(rule, names(waits))):
                _terminates(rule, clique, found)
            if not waits:
                _improves(rule, clique, relations, found)


def _find_starts(
    clique: Clique,
    relations: Mapping[str, RelationInfo],
    facts: Facts,
    found: Diagnostics,
) -> None:
    if clique.exit_rules or any(facts.get(r) or relations[r].takes_data for r in clique.relations):
        return
    names = ", ".join(f"`{r}`" for r in clique.relations)
    rule = clique.rules[0]
    found.add(
        "W103",
        f"{names} can never have facts: no rule starts the recursion",
        rule.span,
        help="add a rule that does not depend on the recursion",
    )


def _steps_on(rule: CoreRule, index: frozenset[str]) -> bool:
    """Whether the head of a rule that waits for a clock is of a later stage, by arithmetic."""
    computed: list[Expression] = [a for a in rule.arguments if isinstance(a, Arithmetic)]
    computed += [side for c in rule.comparisons if c.operator == "=" for side in (c.left, c.right)
                 if isinstance(side, Arithmetic)]  # fmt: skip
    return any(names(each) <= index and names(each) for each in computed)


def _terminates(rule: CoreRule, clique: Clique, found: Diagnostics) -> None:
    argument = computes(rule, clique) if may_not_end(rule, clique) else None
    if argument is not None:
        found.add(
            "W101",
            f"rule {rule.number} computes new values of `{rule.head}` from its own facts "
            "and may not terminate",
            argument.span or rule.span,
            help="bound the value with a comparison, aggregate it with mmin or mmax, "
            "or run with a limit on rounds",
        )


def may_not_end(rule: CoreRule, clique: Clique) -> bool:
    """Whether a recursive rule computes values from its own, with no comparison to stop it."""
    compared = {
        v.name for c in rule.comparisons if c.operator not in ("=", "~=") for v in variables(c)
    }
    values = _find_computed(rule, clique) | _recursive_variables(rule, clique)
    return not compared & values and computes(rule, clique) is not None


def computes(rule: CoreRule, clique: Clique) -> Expression | None:
    """The first head column that arithmetic makes out of the recursion's own values, if any."""
    growing, sources = _find_computed(rule, clique), _free_variables(rule, clique)
    for argument in rule.arguments:
        if not isinstance(argument, Aggregate):
            used = names(argument)
            if used & growing or (_is_computed(argument) and used & sources):
                return argument
    return None


def _recursive_variables(rule: CoreRule, clique: Clique) -> set[str]:
    return {
        name
        for atom in rule.positive
        if atom.relation in clique.relations
        for name in atom.variables
    }


def _free_variables(rule: CoreRule, clique: Clique) -> set[str]:
    """Variables of the recursion that no other atom keeps to the values of finitely many facts."""
    kept = {n for a in rule.positive if a.relation not in clique.relations for n in a.variables}
    for each in rule.comparisons:
        if each.operator == "=":
            kept |= _solve_finite(each.left, each.right, kept) | _solve_finite(
                each.right, each.left, kept
            )
    return _recursive_variables(rule, clique) - kept


def _solve_finite(one: Expression, other: Expression, kept: set[str]) -> frozenset[str]:
    """The variable of `D + 1` or `D - 1`, where that is one of finitely many values."""
    match one, other:
        case Variable(), Arithmetic("+" | "-", Variable(), Constant()) if one.name in kept:
            return names(other)
        case _:
            return frozenset()


def _find_computed(rule: CoreRule, clique: Clique) -> set[str]:
    """Variables that arithmetic makes out of the recursion's own values."""
    sources = _free_variables(rule, clique)
    bound = {name for atom in rule.positive for name in atom.variables}
    growing: set[str] = set()
    equations = [
        (names(c), _is_computed(c.left) or _is_computed(c.right))
        for c in rule.comparisons
        if c.operator == "="
    ]
    before = -1
    while before < len(growing):
        before = len(growing)
        for read, is_computed in equations:
            if (is_computed and read & sources) or read & growing:
                growing |= read - bound  # an equation is solved for whatever is not known
    return growing


def _is_computed(node: Expression) -> bool:
    match node:
        case Arithmetic("mod", _, right):
            return any(True for _ in variables(right))
        case Arithmetic() | Negative() | Function():
            return True
        case Call():
            return find(node.function).grows or any(map(_is_computed, node.arguments))
        case Conditional():
            return _is_computed(node.then) or _is_computed(node.otherwise)
        case _:
            return False


def _improves(
    rule: CoreRule, clique: Clique, relations: Mapping[str, RelationInfo], found: Diagnostics
) -> None:
    direction: dict[str, str] = {}
    for atom in rule.positive:
        if atom.relation in clique.relations:
            functions = relations[atom.relation].aggregates
            for argument, function in zip(atom.arguments, functions, strict=True):
                if function is not None and isinstance(argument, Variable):
                    direction[argument.name] = "falls" if function.improves == "falls" else "grows"
    for comparison in rule.comparisons:
        for variable, undone in _undone(comparison):
            if direction.get(variable.name) == undone or (
                variable.name in direction and undone == "changes"
            ):
                found.add(
                    "W102",
                    f"`{variable.name}` still {direction[variable.name]} while the recursion "
                    "runs, so this comparison may hold at first and fail later",
                    comparison.span or rule.span,
                    help="compare after the recursion, in a rule of another relation",
                )


def _undone(comparison: Comparison) -> Iterator[tuple[Variable, str]]:
    """The variables of a comparison, with the change that can undo it."""
    for variable, larger in ((comparison.left, True), (comparison.right, False)):
        if isinstance(variable, Variable):
            match comparison.operator:
                case ">" | ">=":
                    yield variable, "falls" if larger else "grows"
                case "<" | "<=":
                    yield variable, "grows" if larger else "falls"
                case "~=":
                    yield variable, "changes"
                case "=":
                    other = comparison.right if larger else comparison.left
                    if not isinstance(other, Variable) and not any(True for _ in variables(other)):
                        yield variable, "changes"


Direction: TypeAlias = OneOf["steady", "rises", "falls", "unknown"]

_OPPOSITE: Final[dict[Direction, Direction]] = {"rises": "falls", "falls": "rises"}


@dataclass(frozen=True, slots=True)
class Finding:
    """A recursive aggregate: a column of a relation, and why it is not safe, if it is not."""

    relation: str
    column: str
    function: AggregateFunction
    reason: str | None = None
    span: Span | None = None

    def __str__(self) -> str:
        best = f"the {self.function.word} {self.column} of each group"
        if self.reason is None:
            return (
                f"{self.relation}: pre-mappable. Keeping {best} at every step gives the same "
                "answer as taking it at the end."
            )
        return f"{self.relation}: not shown to be pre-mappable, for {self.reason}."

    def warning(self) -> Diagnostic | None:
        """W104, if it is not safe."""
        if self.reason is None:
            return None
        best = f"the {self.function.word} {self.column} of each group"
        return Diagnostic(
            "W104",
            f"`{self.relation}` keeps {best} at every step, and {self.reason}",
            self.span,
            help="only that value enters the next step, so the answer may differ from "
            "aggregating at the end; to aggregate at the end, move the aggregate to the query "
            "after the recursion",
        )


def premappable(checked: Checked, names: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """A finding for each `min` and `max` column of each recursive relation.

    `names` has the views' own names for the columns of their relations.
    """
    for clique in checked.cliques:
        if not clique.is_recursive:
            continue
        for name in clique.relations:
            info = checked.relations[name]
            for i, function in enumerate(info.aggregates):
                if is_recursive_best(function):
                    column = names[name][i] if name in names else info.columns[i].name
                    problem = _problem(name, i, function, clique, checked)
                    yield Finding(name, column, function, *(problem or (None, None)))


def _problem(
    name: str, column: int, function: AggregateFunction, clique: Clique, checked: Checked
) -> tuple[str, Span | None] | None:
    for rule in clique.recursive_rules:
        for atom in rule.positive:
            argument = atom.arguments[column] if atom.relation == name else None
            if isinstance(argument, Variable) and not argument.is_anonymous:
                found = _find_use(argument.name, function, rule, checked)
                if found is not None:
                    return found
    return None


def _find_use(
    name: str, function: AggregateFunction, rule: CoreRule, checked: Checked
) -> tuple[str, Span | None] | None:
    """What a rule does with a value that may still improve, if it is not safe."""
    if sum(name in atom.variables for atom in rule.atoms) > 1:
        return "the value takes part in a join", rule.span
    for comparison in rule.comparisons:
        if not _holds_on(comparison, name, function):
            return "a condition may hold for a value that is improved later", comparison.span
    functions = checked.relations[rule.head].aggregates
    for argument, kept in zip(rule.arguments, functions, strict=True):
        value = (
            argument.terms[-1] if isinstance(argument, Aggregate) and argument.terms else argument
        )
        direction = _direction(value, name)
        if direction == "steady":
            continue
        span = argument.span or rule.span
        if not is_recursive_best(kept):
            return "a value that may still improve goes into another column", span
        if direction != ("rises" if kept.improves == function.improves else "falls"):
            return "a better value may make a later one worse", span
    return None


def _holds_on(comparison: Comparison, name: str, function: AggregateFunction) -> bool:
    """Whether a condition that holds still holds when the value improves."""
    left, right = _direction(comparison.left, name), _direction(comparison.right, name)
    if left == right == "steady":
        return True
    improving: Direction = "falls" if function.improves == "falls" else "rises"
    if comparison.operator in ("=", "~="):
        return False
    small, large = (left, right) if comparison.operator in ("<", "<=") else (right, left)
    # The smaller side may only fall, and the larger only rise, as the value improves.
    return _moves(small, improving) in ("steady", "falls") and _moves(large, improving) in (
        "steady",
        "rises",
    )


def _moves(direction: Direction, improving: Direction) -> Direction:
    return direction if improving == "rises" else _OPPOSITE.get(direction, direction)


def _direction(node: Expression, name: str) -> Direction:
    """What an expression does when a variable in it rises."""
    if not any(variable.name == name for variable in variables(node)):
        return "steady"
    match node:
        case Variable():
            return "rises"
        case Negative():
            return _flip(_direction(node.operand, name))
        case Arithmetic("+", left, right):
            return _together(_direction(left, name), _direction(right, name))
        case Arithmetic("-", left, right):
            return _together(_direction(left, name), _flip(_direction(right, name)))
        case Arithmetic("*", left, Constant(factor)) | Arithmetic("*", Constant(factor), left):
            return _scale(_direction(left, name), factor)
        case Arithmetic("/" | "div", left, Constant(factor)):
            return _scale(_direction(left, name), factor)
        case Operation():
            return _direction(node.written, name)
        case Conditional((Comparison("<" | "<=" | ">" | ">=", one, other),), then, otherwise) if {
            one,
            other,
        } == {then, otherwise}:  # the smaller or the larger of two values
            return _together(_direction(one, name), _direction(other, name))
        case Call() if not isinstance(node, Function):
            return _direction_of_call(node, name)
        case _:
            return "unknown"


def _direction_of_call(node: Call, name: str) -> Direction:
    """What a call does when a variable rises, by what its row says of each argument."""
    row, found = find(node.function), "steady"
    for i, argument in enumerate(node.arguments):
        moved = _direction(argument, name)
        match row.moving(i):
            case "+":
                pass
            case "-":
                moved = _flip(moved)
            case _:
                moved = "steady" if moved == "steady" else "unknown"
        found = _together(found, moved)
    return found


def _scale(direction: Direction, factor: object) -> Direction:
    if not isinstance(factor, int | float | Decimal):
        return "unknown"
    return direction if factor >= 0 else _flip(direction)


def _flip(direction: Direction) -> Direction:
    return _OPPOSITE.get(direction, direction)


def _together(one: Direction, other: Direction) -> Direction:
    if one == "steady":
        return other
    return one if other in ("steady", one) else "unknown"
