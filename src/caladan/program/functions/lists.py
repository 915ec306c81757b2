"""Functions of lists and structs: `[A, B]`, `{name: N}`, `L[0]`, `S.name`, `X in L` and others.

A list is a tuple here, and a struct a `Struct` (program/nested.py). Where types are known, the
analysis puts a `NestedCall` in the place of a call that takes or gives one: engines have bytes, and
hand them to it as to any function of Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from caladan.program.functions.row import CallFailed, FunctionRow
from caladan.program.nested import Struct, json_text, pack, python, unpack
from caladan.program.types import Type
from caladan.program.values import inside, write_value


def _item(items: tuple[Any, ...], place: int) -> Any:
    if not -len(items) <= place < len(items):
        raise ValueError(f"there is no element {place} in a list of {len(items)}")
    return items[place]


def _has_item(items: tuple[Any, ...], place: int) -> bool:
    return -len(items) <= place < len(items) and items[place] is not None


def _dig(value: Any, *path: Any) -> Any:
    for step in path:
        value = value[step] if isinstance(step, str) else _item(value, step)
    return value


def _has_path(value: Any, *path: Any) -> bool:
    for step in path:
        if isinstance(step, str) or _has_item(value, step):
            value = value[step]
        else:
            return False
        if value is None:
            return False
    return True


def _there(items: tuple[Any, ...]) -> list[Any]:
    """The elements that `X in L` gives."""
    return [each for each in items if each is not None]


def _slice(items: tuple[Any, ...], start: int, length: int) -> tuple[Any, ...]:
    if start == 0:
        raise ValueError("elements are counted from 1, or from -1 at the end")
    if length < 0:
        raise ValueError(f"a slice of {length} elements")
    first = start - 1 if start > 0 else len(items) + start
    return items[first : first + length] if first >= 0 else ()


def _position(items: tuple[Any, ...], item: Any) -> int:
    return items.index(item) + 1 if item in items else 0


def _sort(items: tuple[Any, ...]) -> tuple[Any, ...]:
    some = _there(items)
    return (*[None] * (len(items) - len(some)), *sorted(some))


def _least(items: tuple[Any, ...]) -> Any:
    return min(_there(items))


def _most(items: tuple[Any, ...]) -> Any:
    return max(_there(items))


def _has_any(items: tuple[Any, ...]) -> bool:
    return bool(_there(items))


def _sequence(first: int, last: int) -> tuple[int, ...]:
    if last - first >= 1_000_000:
        raise ValueError(f"a sequence of {last - first + 1} numbers")
    return tuple(range(first, last + 1))


def _struct(*pairs: Any) -> Struct:
    return Struct(pairs[::2], pairs[1::2])


def _parts(text: str, separator: str) -> tuple[str, ...]:
    return tuple(text.split(separator) if separator else text)


@dataclass(frozen=True)
class NestedCall:
    """A function of the table over lists and structs as engines have them, whose types are known.

    At the `fixed` places no value is handed to it: they are missing, which the function wants to
    know if it `keeps_missing` ones.
    """

    name: str
    takes: tuple[Type | None, ...]
    returns: Type
    keeps_missing: bool = False
    fixed: tuple[int, ...] = ()

    def without(self, places: Sequence[int]) -> NestedCall:
        """The same where what is handed to it lacks the values at some places."""
        open_places = [i for i in range(len(self.takes)) if i not in self.fixed]
        return replace(self, fixed=(*self.fixed, *(open_places[place] for place in places)))

    def __call__(self, *given: Any) -> Any:
        from caladan.program.functions import find

        rest = iter(given)
        values = [
            None if i in self.fixed else _unpack(next(rest), type)
            for i, type in enumerate(self.takes)
        ]
        row = find(self.name)
        try:
            made = row.scalar(*values)
        except ValueError as problem:
            raise CallFailed(self.name, str(problem)) from None
        if not self.returns.is_nested:
            return made
        return pack(inside(made, self.returns), self.returns)


@dataclass(frozen=True)
class Unpacking:
    """A function of a user's, which is handed tuples and structs where engines have bytes."""

    code: Callable[..., Any]
    takes: tuple[Type | None, ...]

    def __call__(self, *given: Any) -> Any:
        values = (_unpack(value, type) for value, type in zip(given, self.takes, strict=True))
        return self.code(*values)


def _unpack(value: Any, type: Type | None) -> Any:
    if value is None:
        return None
    if type is not None and type.is_nested:
        return python(unpack(value), type)
    return float(value) if type is not None and type.is_floating else value


_lists = partial(FunctionRow, family="Lists and structs")
_BY_VALUE: Final = "engines have lists as bytes: it is called once for each distinct value"
_RULES: Final = "rules derive its rows"
_INSIDE: Final = {"arrow": _BY_VALUE, "spark": _BY_VALUE}

ROWS: Final = (
    _lists(
        name="list", aliases=("array",), signature="(E...) -> list | () -> list",
        summary="The list of its values; written `[A, B]`.",
        example=("list(3, 1)", (3, 1)), scalar=lambda *items: items, takes_missing=True,
        duckdb="[{0}, {1}]", lacks=_INSIDE, grows=True,
    ),
    _lists(
        name="singleton", signature="(E) -> list",
        summary="The list of one value; missing if that is.",
        example=("singleton(3)", (3,)), scalar=lambda item: (item,), duckdb="[{0}]", lacks=_INSIDE,
    ),
    _lists(
        name="struct", aliases=("named_struct",), signature="(name, any, ...) -> struct",
        summary="The struct of named values; written `{name: N, city: C}`.",
        example=('struct("name", "Chani")', Struct(("name",), ("Chani",))), scalar=_struct,
        takes_missing=True, duckdb="{{{0}: {1}}}", lacks=_INSIDE, grows=True,
    ),
    _lists(
        name="item", signature="(list, long) -> E",
        summary="The element at a place, counted from 0, or from -1 at the end; written `L[0]`. "
        "Missing if there is none.",
        example=("item([3, 1], 1)", 1), scalar=_item, tested_by="has_item",
        duckdb="({0})[{1} + 1]", lacks=_INSIDE, fails=True,
    ),
    _lists(
        name="has_item", signature="(list, long) -> boolean",
        summary="Whether a list has a value at a place, counted from 0, or from -1 at the end.",
        example=("has_item([3, 1], 2)", False), scalar=_has_item,
        duckdb="({0})[{1} + 1] IS NOT NULL", lacks=_INSIDE,
    ),
    _lists(
        name="field", signature="(struct, name) -> field",
        summary="The value of a field; written `S.name`.",
        example=('field({name: "Chani"}, "name")', "Chani"),
        scalar=lambda value, name: value[name], tested_by="has_field",
        duckdb="struct_extract({0}, {1})", lacks=_INSIDE,
    ),
    _lists(
        name="has_field", signature="(struct, name) -> boolean",
        summary="Whether a struct has a value in a field.",
        example=('has_field({name: "Chani"}, "name")', True),
        scalar=lambda value, name: value[name] is not None,
        duckdb="struct_extract({0}, {1}) IS NOT NULL", lacks=_INSIDE,
    ),
    _lists(
        name="dig", signature="(any, any...) -> field",
        summary="What is at a path of fields and places: `S.home.city`, `S.tags[0]`.",
        example=('dig({a: [1, 2]}, "a", 1)', 2), scalar=_dig, tested_by="has_path",
        duckdb="({0})[{1}][{2} + 1]", lacks=_INSIDE,
    ),
    _lists(
        name="has_path", signature="(any, any...) -> boolean",
        summary="Whether there is a value at a path of fields and places.",
        example=('has_path({a: [1, 2]}, "a", 1)', True), scalar=_has_path,
        duckdb="({0})[{1}][{2} + 1] IS NOT NULL", lacks=_INSIDE,
    ),
    _lists(
        name="each", aliases=("explode", "unnest"), signature="(list) -> E",
        rows=("each_size", "each_item"),
        summary="The elements of a list that are there; `X in each(L)` is also written `X in L`.",
        example=("each([3, 1])", [3, 1]), scalar=_there, duckdb="{0}",
        lacks={"arrow": _RULES, "spark": _RULES},
    ),
    _lists(
        name="each_size", signature="(list) -> long",
        summary="How many elements of a list are there.", example=("each_size([3, 1])", 2),
        scalar=lambda items: len(_there(items)), duckdb="len({0})", lacks=_INSIDE,
    ),
    _lists(
        name="each_item", signature="(list, long) -> E",
        summary="An element of a list, counted from 0 among those that are there.",
        example=("each_item([3, 1], 0)", 3), scalar=lambda items, place: _there(items)[place],
        duckdb="({0})[{1} + 1]", lacks=_INSIDE,
    ),
    _lists(
        name="size", aliases=("cardinality", "array_size"), signature="(list) -> long",
        summary="How many elements a list has, missing ones among them; also `length`.",
        example=("size([3, 1])", 2), scalar=len, duckdb="len({0})", lacks=_INSIDE,
    ),
    _lists(
        name="append", aliases=("array_append", "list_append"), signature="(list, E) -> list",
        summary="A list with one more element at its end.",
        example=("append([3, 1], 2)", (3, 1, 2)), scalar=lambda items, item: (*items, item),
        duckdb="list_append", lacks=_INSIDE, grows=True,
    ),
    _lists(
        name="prepend", aliases=("array_prepend",), signature="(E, list) -> list",
        summary="A list with one more element at its start.",
        example=("prepend(2, [3, 1])", (2, 3, 1)), scalar=lambda item, items: (item, *items),
        duckdb="list_prepend", lacks=_INSIDE, grows=True,
    ),
    _lists(
        name="list_concat", aliases=("array_concat",), signature="(list, list...) -> list",
        summary="Lists, one after the other; also `concat`.",
        example=("list_concat([3], [1, 2])", (3, 1, 2)),
        scalar=lambda *lists: tuple(each for items in lists for each in items),
        duckdb="list_concat", lacks=_INSIDE, grows=True,
    ),
    _lists(
        name="list_position", aliases=("array_position",), signature="(list, E) -> long",
        summary="Where a value stands first in a list, counted from 1; 0 if it does not.",
        example=("list_position([3, 1], 1)", 2), scalar=_position,
        duckdb="coalesce(list_position({0}, {1}), 0)", lacks=_INSIDE,
    ),
    _lists(
        name="slice", aliases=("array_slice",), signature="(list, long, long) -> list",
        summary="From the element at a place, counted from 1 or from -1 at the end, so many.",
        example=("slice([3, 1, 2], 2, 2)", (1, 2)), scalar=_slice,
        duckdb="list_slice({0}, {1}, {1} + {2} - 1)", lacks=_INSIDE, fails=True,
    ),
    _lists(
        name="list_sort", aliases=("sort_array", "array_sort"), signature="(list) -> list",
        summary="The elements in order, missing ones first.",
        example=("list_sort([3, 1])", (1, 3)), scalar=_sort, duckdb="list_sort", lacks=_INSIDE,
    ),
    _lists(
        name="list_distinct", aliases=("array_distinct",), signature="(list) -> list",
        summary="Each element once, where it comes first.",
        example=("list_distinct([3, 1, 3])", (3, 1)),
        scalar=lambda items: tuple(dict.fromkeys(items)),
        lacks=_INSIDE | {"duckdb": "in any order"},
    ),
    _lists(
        name="list_min", aliases=("array_min",), signature="(list) -> E",
        summary="The least element; missing if there is none.", example=("list_min([3, 1])", 1),
        scalar=_least, tested_by="has_any", duckdb="list_min", lacks=_INSIDE,
    ),
    _lists(
        name="list_max", aliases=("array_max",), signature="(list) -> E",
        summary="The greatest element; missing if there is none.", example=("list_max([3, 1])", 3),
        scalar=_most, tested_by="has_any", duckdb="list_max", lacks=_INSIDE,
    ),
    _lists(
        name="has_any", signature="(list) -> boolean",
        summary="Whether a list has an element that is there.", example=("has_any([3])", True),
        scalar=_has_any, duckdb="len({0}) > 0", lacks=_INSIDE,
    ),
    _lists(
        name="list_join", aliases=("array_join", "array_to_string"),
        signature="(list, string) -> string",
        summary="The texts of a list, with a text between them; missing ones are left out.",
        example=('list_join(["a", "b"], "-")', "a-b"),
        scalar=lambda items, between: between.join(_there(items)), duckdb="array_to_string",
        lacks=_INSIDE,
    ),
    _lists(
        name="string_to_array", aliases=("string_split",), signature="(string, string) -> texts",
        summary="The parts of a text between separators as a list; `split` gives them as rows.",
        example=('string_to_array("a,b", ",")', ("a", "b")), scalar=_parts,
        duckdb="string_split", lacks=_INSIDE,
    ),
    _lists(
        name="sequence", signature="(long, long) -> numbers",
        summary="The whole numbers from the first to the second as a list; `range` gives rows.",
        example=("sequence(1, 3)", (1, 2, 3)), scalar=_sequence,
        duckdb="range({0}, {1} + 1)", lacks=_INSIDE, fails=True,
    ),
    _lists(
        name="to_json", signature="(list) -> string | (struct) -> string",
        summary="A list or a struct as JSON; `cast(T, list<long>)` reads it.",
        example=("to_json([3, 1])", "[3, 1]"), scalar=lambda value: json_text(value, write_value),
        lacks=_INSIDE | {"duckdb": "it leaves out blanks"},
    ),
)  # fmt: skip
