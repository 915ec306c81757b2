"""A rule's body as a set of parts, without an order.

The compiler's plan has its joins in one order; here they are taken apart again, because the order
is chosen while running, by looking at the facts. `Extend` becomes an equality: it binds its
variable, or tests it where an atom was first.

An integer column that meets a variable of doubles (or the other way round) cannot share words with
it. It gets a variable of its own, and an equality that widens one into the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from caladan.analysis.core import RelationInfo
from caladan.columns.ranks import Kind, kind_of, kind_of_value
from caladan.program import (
    Aggregate,
    Arithmetic,
    Call,
    Comparison,
    Conditional,
    Constant,
    Expression,
    Negative,
    Variable,
    variables,
)
from caladan.rules.operators import (
    AntiJoin,
    Cut,
    Extend,
    Join,
    Operator,
    Project,
    Prune,
    Scan,
    Select,
    Unit,
)
from caladan.rules.program import DeltaRule

# Aggregates for which two solutions with the same value count twice.
_COUNTING = ("sum", "count", "avg", "msum", "mcount")


@dataclass(frozen=True, slots=True)
class Binding:
    """A variable and the expression it equals.

    A `solved` one is not as the user wrote it (`Y = X - 1` for `X = Y + 1`): where it leaves 64
    bits there is no solution, and no mistake.
    """

    variable: str
    expression: Expression
    solved: bool = False


@dataclass(frozen=True, slots=True)
class Body:
    """The parts of a rule.

    `columns` are what the head's columns are fed with, `keys` the contributors' keys behind them;
    `kinds` has the kind of every variable. If `counting`, every solution matters, not only the
    distinct rows they give.
    """

    atoms: tuple[Scan, ...]
    absents: tuple[Scan, ...]
    conditions: tuple[Comparison, ...]
    bindings: tuple[Binding, ...]
    columns: tuple[Expression, ...]
    keys: tuple[Expression, ...]
    cut: Cut | None
    kinds: Mapping[str, Kind]
    counting: bool

    @property
    def has_widenings(self) -> bool:
        """Whether an integer column meets a variable of doubles, or the other way round."""
        return any("#" in name for name in self.kinds)

    @property
    def needed(self) -> frozenset[str]:
        """The variables that the head reads."""
        return names(*self.columns, *self.keys)


def names(*nodes: Expression | Comparison) -> frozenset[str]:
    """The variables of some expressions."""
    return frozenset(v.name for node in nodes for v in variables(node))


def body_of(rule: DeltaRule, relations: Mapping[str, RelationInfo]) -> Body:
    """The parts of a delta rule."""
    cut = rule.plan if isinstance(rule.plan, Cut) else None
    project = rule.plan.input if isinstance(rule.plan, Cut) else rule.plan
    parts = list(_parts(project.input))
    kinds = {name: kind_of(type) for name, type in rule.rule.types.items()}
    written = {(c.left, c.right) for c in rule.rule.comparisons if c.operator == "="}
    found = {v for p in parts if isinstance(p, Scan) for v in p.variables}
    bindings = [
        replace(p, solved=p.variable in found or _is_solved(p, written))
        for p in parts
        if isinstance(p, Binding)
    ]
    atoms: list[Scan] = []
    for scan in (p for p in parts if isinstance(p, Scan)):
        atom, widenings = _separated(scan, relations[scan.relation], kinds, len(bindings))
        atoms.append(atom)
        bindings += widenings
    arguments = rule.rule.arguments
    return Body(
        tuple(atoms),
        tuple(p.right for p in parts if isinstance(p, AntiJoin)),
        tuple(c for p in parts if isinstance(p, Select) for c in p.conditions),
        tuple(bindings),
        (*(_amount(a, c) for a, c in zip(arguments, project.columns, strict=False)),
         *project.columns[len(arguments) :]),
        project.keys,
        cut,
        kinds,
        any(isinstance(a, Aggregate) and a.function in _COUNTING for a in arguments),
    )  # fmt: skip


def _is_solved(binding: Binding, written: set[tuple[Expression, Expression]]) -> bool:
    variable = Variable(binding.variable)
    return not {(variable, binding.expression), (binding.expression, variable)} & written


def _parts(node: Operator) -> Iterator[Scan | AntiJoin | Select | Binding]:
    match node:
        case Unit():
            return
        case Scan():
            yield node
        case Join():
            yield from _parts(node.left)
            yield from _parts(node.right)
        case AntiJoin():
            yield from _parts(node.left)
            yield node
        case Select():
            yield from _parts(node.input)
            yield node
        case Extend():
            yield from _parts(node.input)
            yield Binding(node.variable, node.expression)
        case Prune():
            yield from _parts(node.input)
        case Project() | Cut():
            raise AssertionError(f"{type(node).__name__} inside a body")


def _amount(argument: Expression, column: Expression) -> Expression:
    """What a solution adds to a column: 1 where solutions or distinct terms are counted."""
    if isinstance(argument, Aggregate):
        counted = argument.function == "count" or (
            argument.function == "mcount" and len(argument.terms) < 2
        )
        if counted or argument.function == "countd" or not argument.terms:
            return Constant(1)
        return argument.terms[-1]
    return column


def _separated(
    scan: Scan, info: RelationInfo, kinds: dict[str, Kind], number: int
) -> tuple[Scan, list[Binding]]:
    """A scan whose variables all have the kind of their columns, and what that leaves to equate."""
    arguments = list(scan.arguments)
    widenings: list[Binding] = []
    for i, (argument, column) in enumerate(zip(arguments, info.columns, strict=True)):
        kind = kind_of(column.type)
        if isinstance(argument, Variable) and kinds.get(argument.name, kind) is not kind:
            own = f"{argument.name}#{number}.{i}"
            kinds[own] = kind
            arguments[i] = Variable(own)
            widenings.append(Binding(argument.name, Variable(own)))
    return (replace(scan, arguments=tuple(arguments)), widenings) if widenings else (scan, [])


def kind_of_expression(expression: Expression, kinds: Mapping[str, Kind]) -> Kind:
    """The kind of what an expression gives."""
    match expression:
        case Variable():
            return kinds[expression.name]
        case Constant():
            return kind_of_value(expression.value)
        case Negative():
            return kind_of_expression(expression.operand, kinds)
        case Arithmetic(operator=operator, left=left, right=right):
            sides = [kind_of_expression(side, kinds) for side in (left, right)]
            return Kind.FLOAT if operator == "/" or Kind.FLOAT in sides else Kind.INTEGER
        case Call(function=function):
            return Kind.INTEGER if function == "length" else Kind.STRING
        case Conditional(then=then, otherwise=otherwise):
            branches = [kind_of_expression(branch, kinds) for branch in (then, otherwise)]
            return Kind.FLOAT if Kind.FLOAT in branches else branches[0]
        case _:
            raise TypeError(f"not an expression of a body: {expression}")


def mismatched(scan: Scan, info: RelationInfo, kinds: Mapping[str, Kind]) -> dict[int, str]:
    """The columns of a negated atom that meet a variable of another kind, with that variable."""
    return {
        i: argument.name
        for i, (argument, column) in enumerate(zip(scan.arguments, info.columns, strict=True))
        if isinstance(argument, Variable)
        and not argument.is_anonymous
        and kinds[argument.name] is not kind_of(column.type)
    }
