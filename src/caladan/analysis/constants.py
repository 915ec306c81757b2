"""Constants get the types of columns and variables that they meet: the last step of types.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from caladan.analysis.core import CoreAtom, CoreRule, Facts, OpenFacts, Term
from caladan.analysis.type_check import (
    as_decimal,
    as_written,
    constant_type,
    operand_types,
    partial_type,
    stands_for,
    widen,
)
from caladan.program import (
    NULL,
    Aggregate,
    Arithmetic,
    Call,
    Comparison,
    Conditional,
    Constant,
    Expression,
    Function,
    Negative,
    Object,
    Type,
    Value,
    operations,
)
from caladan.program.diagnostics import Diagnostics, Span
from caladan.program.functions import NestedCall, Resolved, Unpacking, find, resolve
from caladan.program.notation import width_of
from caladan.program.objects import Objects
from caladan.program.transform import replace_in
from caladan.program.types import decimal


def _has_parameters(fact: CoreRule) -> bool:
    return any(isinstance(a, Constant) and a.placeholder is not None for a in fact.arguments)


class ConstantFitter:
    """Gives constants the types of what they meet; C018 where a value does not fit."""

    def __init__(
        self, columns: dict[str, tuple[Type, ...]], found: Diagnostics, objects: Objects
    ) -> None:
        self.columns = columns
        self._found = found
        self._objects = objects

    def facts(self, rules: Iterable[CoreRule]) -> Facts:
        rows = self._rows(rule for rule in rules if not _has_parameters(rule))
        return {
            name: tuple(dict.fromkeys(tuple(c.value for c in row) for row in facts))
            for name, facts in rows.items()
        }

    def open_facts(self, rules: Iterable[CoreRule]) -> OpenFacts:
        rows = self._rows(rule for rule in rules if _has_parameters(rule))
        return {name: tuple(dict.fromkeys(facts)) for name, facts in rows.items()}

    def _rows(self, rules: Iterable[CoreRule]) -> dict[str, list[tuple[Constant, ...]]]:
        """Facts as they are written, by relation, each value of its column's type."""
        rows: dict[str, list[tuple[Constant, ...]]] = {}
        for rule in rules:
            pairs = zip(rule.arguments, self.columns[rule.head], strict=False)
            row = tuple(self._constant(a, t) for a, t in pairs if isinstance(a, Constant))
            rows.setdefault(rule.head, []).append(row)
        return rows

    def rule(self, rule: CoreRule, known: dict[str, Type]) -> CoreRule:
        return replace(
            rule,
            atoms=tuple(self._atom(a) for a in rule.atoms),
            comparisons=tuple(self.comparison(c, known) for c in rule.comparisons),
            arguments=tuple(
                self.argument(a, t, known)
                for a, t in zip(rule.arguments, self.columns[rule.head], strict=False)
            ),
            types=known,
        )

    def _atom(self, atom: CoreAtom) -> CoreAtom:
        types = self.columns.get(atom.relation, ())
        arguments: list[Term] = []
        for i, argument in enumerate(atom.arguments):
            if isinstance(argument, Constant) and i < len(types):
                argument = self._constant(argument, types[i])
            arguments.append(argument)
        return replace(atom, arguments=tuple(arguments))

    def argument(self, node: Expression, type: Type, known: Mapping[str, Type]) -> Expression:
        if isinstance(node, Constant):
            return self._constant(node, type)
        if isinstance(node, Aggregate):
            return replace(node, terms=tuple(self._inside(t, known) for t in node.terms))
        return self._as(node, type, known)

    def _as(self, node: Expression, type: Type, known: Mapping[str, Type]) -> Expression:
        """An expression as a value of a type: integers, decimals and doubles become each other."""
        if isinstance(node, Constant) and type.is_decimal:
            return self._operand(node, type, known)
        own = partial_type(node, known)
        made = self._inside(node, known)
        return made if own is None else operations.convert(made, own, type)

    def _inside(self, node: Expression, known: Mapping[str, Type]) -> Expression:
        def change(part: Expression) -> Expression | None:
            match part:
                case Function() if part.vectorized is None:
                    return self._function(part, known)
                case Call() if not isinstance(part, Function):
                    return self._call(part, known)
                case Arithmetic():
                    return self._arithmetic(part, known)
                case Negative():
                    type = partial_type(part.operand, known)
                    found = None if type is None else operations.find("-", type)
                    if type is None or found is None:
                        return None
                    operand = self._inside(part.operand, known)
                    return operations.operation(part, found[0], [operand], [type], found[1])
                case Conditional():
                    type = partial_type(part, known)
                    return replace(
                        part,
                        condition=tuple(self.comparison(c, known) for c in part.condition),
                        then=self._branch(part.then, type, known),
                        otherwise=self._branch(part.otherwise, type, known),
                    )
                case _:
                    return None

        return replace_in(node, change)

    def _branch(self, node: Expression, type: Type | None, known: Mapping[str, Type]) -> Expression:
        return self._inside(node, known) if type is None else self._as(node, type, known)

    def _arithmetic(self, node: Arithmetic, known: Mapping[str, Type]) -> Expression | None:
        """Arithmetic on other values than plain numbers as the operation that it is."""
        left, right = operand_types(node, known)
        if left is None or right is None:
            return None
        found = operations.find(node.operator, left, right)
        if found is None:
            if not (left.is_decimal or right.is_decimal):
                return None
            sides = ((node.left, left), (node.right, right))
            one, other = (
                operations.convert(self._inside(side, known), type, Type.DOUBLE)
                for side, type in sides
            )
            return replace(node, left=one, right=other)
        sides = ((node.left, left), (node.right, right))
        arguments = [self._operand(side, type, known) for side, type in sides]
        return operations.operation(node, found[0], arguments, (left, right), found[1])

    def _operand(self, node: Expression, type: Type, known: Mapping[str, Type]) -> Expression:
        if isinstance(node, Constant) and type.is_decimal:
            value = as_decimal(node)
            return node if value is None else node.fitted(value, type)
        if isinstance(node, Constant) and isinstance(node.value, str):
            return self._constant(node, type)
        return self._inside(node, known)

    def _call(self, node: Call, known: Mapping[str, Type]) -> Call:
        """A call whose literals are of the types that it takes: a date may be written as text."""
        arguments = [self._inside(each, known) for each in node.arguments]
        found = resolve(find(node.function), node, lambda each: partial_type(each, known))
        takes = found.takes if isinstance(found, Resolved) else ()
        for i, type in enumerate(takes):
            argument = arguments[i]
            if isinstance(argument, Constant) and type is not None:
                own = constant_type(argument.value)
                if stands_for(own, type) or (type is Type.DOUBLE and own.is_integral):
                    arguments[i] = self._constant(argument, type)
        row = find(node.function)
        if isinstance(found, Resolved) and not row.is_compiled:
            given = tuple(
                type or partial_type(each, known)
                for type, each in zip(takes, node.arguments, strict=True)
            )
            if not any(t is not None and t.is_nested for t in (*given, found.returns)):
                return replace(node, arguments=tuple(arguments))
            code = NestedCall(row.name, given, found.returns, row.takes_missing)
            return Function(row.name, tuple(arguments), node.span, code=code, returns=found.returns)
        return replace(node, arguments=tuple(arguments))

    def _function(self, node: Function, known: Mapping[str, Type]) -> Function | None:
        """A function of Python, which takes lists and structs as Python has them."""
        takes = tuple(partial_type(each, known) for each in node.arguments)
        if isinstance(node, operations.Operation) or isinstance(node.code, NestedCall):
            return None
        if not any(type is not None and type.is_nested for type in takes):
            return None
        arguments = tuple(self._inside(each, known) for each in node.arguments)
        return replace(node, arguments=arguments, code=Unpacking(node.code, takes))

    def comparison(self, node: Comparison, known: Mapping[str, Type]) -> Comparison:
        left, right = self._inside(node.left, known), self._inside(node.right, known)
        left, right = self._beside(left, right, known), self._beside(right, left, known)
        one, other = partial_type(left, known), partial_type(right, known)
        both = None if one is None or other is None else widen(one, other)
        if both is not None and one is not None and other is not None and one.kind != other.kind:
            left = operations.convert(left, one, both)
            right = operations.convert(right, other, both)
        return replace(node, left=left, right=right)

    def _beside(self, node: Expression, other: Expression, known: Mapping[str, Type]) -> Expression:
        """A literal beside a datetime, a decimal, an object or a 32-bit float is of its kind."""
        is_free = not isinstance(other, Constant) or isinstance(other.value, Object)
        if isinstance(node, Constant) and node.value is not NULL and is_free:
            type, own = partial_type(other, known), constant_type(node.value)
            if type is not None and type.is_decimal and own.is_numeric:
                value = as_decimal(node)
                return node if value is None else node.fitted(value, decimal(*width_of(value)))
            if type is not None and (
                stands_for(own, type) or (type is Type.FLOAT and own.is_numeric)
            ):
                return self._constant(node, type)
        return node

    def _constant(self, node: Constant, type: Type) -> Constant:
        return node.fitted(self._value(node.value, type, node.span), type)

    def _value(self, value: Value, type: Type, span: Span | None) -> Value:
        if value is NULL:
            return value
        own = constant_type(value)
        if widen(type, own) is None and not stands_for(own, type):
            return value  # a conflict that the check has reported
        if type.is_decimal and own.is_floating:
            value = as_written(value, span)
        if own.is_floating and type.is_integral:
            return value  # likewise
        try:
            return self._objects.fit(value, type)
        except ValueError as reason:
            self._found.add("C018", str(reason), span)
            return value
