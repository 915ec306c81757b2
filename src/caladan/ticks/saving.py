"""Saving: what a program holds between two ticks, as a file of Arrow.

    write(path, SavedState)     by a file beside it that takes its place at once
    read(path)                  the state; C030 and C035 where there is none or it is no such file

The file has a row for each relation: its name, what its facts are (`holds`, `insert`, `delete`,
`upsert`: those of a later tick wait for it), its columns, and its facts as a stream of Arrow. A
column of one type is stored as such; any other as JSON texts in which `{"tuple": […]}` and the like
stand for what JSON lacks. Nothing in a file is executed: a lattice of the user's is saved by its
plain value, and made again by the class that the program declares.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from caladan.language.bloom.lattices import LATTICES
from caladan.language.bloom.schema import Schema
from caladan.language.bloom.values import Lattice
from caladan.program.diagnostics import error
from caladan.ticks.extent import Fact

if TYPE_CHECKING:
    import pyarrow as pa

_FORMAT: Final = "caladan bloom 1"
_PLAIN: Final = (int, float, str, bool, bytes)


@dataclass(frozen=True, slots=True)
class SavedState:
    """The number of ticks that are over, and facts by relation and by what they are there for."""

    ticks: int
    facts: Mapping[tuple[str, str], list[Fact]]


def write(path: str | os.PathLike[str], state: SavedState, schemas: Mapping[str, Schema]) -> None:
    """Save a state; the file is whole at every moment."""
    import pyarrow as pa

    rows: dict[str, list[Any]] = {"relation": [], "facts are": [], "columns": [], "facts": []}
    for (name, purpose), facts in state.facts.items():
        schema = schemas[name]
        rows["relation"].append(name)
        rows["facts are"].append(purpose)
        rows["columns"].append(_signature(schema))
        rows["facts"].append(_store(name, schema, facts))
    types = [pa.string(), pa.string(), pa.string(), pa.large_binary()]
    columns = zip(rows.items(), types, strict=True)
    table = pa.table(
        {name: pa.array(values, kind) for (name, values), kind in columns},
        metadata={"format": _FORMAT, "ticks": str(state.ticks)},
    )  # fmt: skip
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with partial.open("wb") as file:
            with pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    except OSError as problem:
        partial.unlink(missing_ok=True)
        raise error("C035", f"{target} cannot be written: {problem.strerror}") from None


def read(path: str | os.PathLike[str], schemas: Mapping[str, Schema]) -> SavedState:
    """The state of a file, for a program whose collections are those that it was saved with."""
    import pyarrow as pa

    target = Path(path)
    if not target.is_file():
        raise error("C030", f"there is no file {target}", help="save(path) writes one")
    try:
        with target.open("rb") as file:
            table = pa.ipc.open_file(file).read_all()
        about = table.schema.metadata or {}
        if about.get(b"format", b"").decode() != _FORMAT:
            raise ValueError("it was not saved by a program")
        ticks = int(about[b"ticks"])
        facts: dict[tuple[str, str], list[Fact]] = {}
        for name, purpose, columns, data in zip(
            *(c.to_pylist() for c in table.columns), strict=True
        ):
            schema = schemas.get(name)
            if schema is None or _signature(schema) != columns:
                raise error(
                    "C035",
                    f"{target} has `{name}({columns})`, which this program does not declare so",
                    help="restore with the class that saved, or hand the facts over by insert()",
                )
            facts[name, purpose] = _load(schema, data)
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        ArithmeticError,
        pa.ArrowException,
    ) as problem:
        raise error("C035", f"{target} is no saved program: {problem}") from None
    return SavedState(ticks, facts)


def _signature(schema: Schema) -> str:
    """The columns as they are declared, so that a changed class is noticed."""
    written = [
        name + (f": {schema.lattices[i].word}" if i in schema.lattices else "")
        for i, name in enumerate(schema.columns)
    ]
    keys, values = written[: schema.width], written[schema.width :]
    return ", ".join(keys) + (f" => {', '.join(values)}" if values else "")


# ── Facts ────────────────────────────────────────────────────────────────────────────────────────


def _store(name: str, schema: Schema, facts: list[Fact]) -> bytes:
    import pyarrow as pa

    fields: list[pa.Field] = []
    arrays: list[pa.Array] = []
    for position, column in enumerate(schema.columns):
        values = [fact[position] for fact in facts]
        array = _plain(values)
        is_plain = array is not None
        if array is None:
            lattice = schema.lattices.get(position)
            try:
                texts = [json.dumps(_tag(value, lattice)) for value in values]
            except TypeError as problem:
                raise error(
                    "C035", f"column {column} of `{name}` cannot be saved: {problem}"
                ) from None
            array = pa.array(texts, pa.large_string())
        fields.append(pa.field(column, array.type, metadata={"json": str(not is_plain)}))
        arrays.append(array)
    batch = pa.record_batch(arrays, schema=pa.schema(fields, {"rows": str(len(facts))}))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def _plain(values: list[Any]) -> pa.Array | None:
    """A column of values of one type; None if another way has to be found."""
    import pyarrow as pa

    kinds = {type(value) for value in values if value is not None}
    if len(kinds) != 1 or not kinds <= set(_PLAIN):
        return None
    try:
        return pa.array(values)
    except (OverflowError, UnicodeError, pa.ArrowInvalid):
        return None


def _load(schema: Schema, data: bytes) -> list[Fact]:
    import pyarrow as pa

    table = pa.ipc.open_stream(data).read_all()
    if len(table.schema) != len(schema.columns):
        raise ValueError("columns are missing")
    if not schema.columns:
        return [()] * int((table.schema.metadata or {})[b"rows"])
    columns: list[list[Any]] = []
    for position, field in enumerate(table.schema):
        values = table.column(position).to_pylist()
        if (field.metadata or {}).get(b"json") == b"True":
            lattice = schema.lattices.get(position)
            values = [_value(json.loads(text), lattice) for text in values]
        columns.append(values)
    return list(zip(*columns, strict=True))


# ── Values that Arrow has no column for ──────────────────────────────────────────────────────────


_TEXTS: Final[dict[str, tuple[type, Callable[[Any], str], Callable[[str], Any]]]] = {
    "bytes": (bytes, lambda v: base64.b64encode(v).decode(), base64.b64decode),
    "float": (float, repr, float),
    "decimal": (Decimal, str, Decimal),
    "fraction": (Fraction, str, Fraction),
    "datetime": (datetime, datetime.isoformat, datetime.fromisoformat),
    "date": (date, date.isoformat, date.fromisoformat),
    "time": (time, time.isoformat, time.fromisoformat),
}
"""Types with a text of their own, and the way there and back."""


def _tag(value: Any, lattice: type[Lattice] | None = None) -> Any:
    """A value as JSON has it; TypeError for a value that cannot be saved."""
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    for word, (known, write_text, _) in _TEXTS.items():
        if kind is known:
            return {word: write_text(value)}
    if kind is timedelta:
        return {"timedelta": [value.days, value.seconds, value.microseconds]}
    if kind is tuple:
        return {"tuple": list(map(_tag, value))}
    if kind is frozenset:
        return {"set": list(map(_tag, value))}
    if isinstance(value, Lattice):
        if LATTICES.get(value.word) is kind:
            return {value.word: _tag(value.value)}  # type: ignore[attr-defined]
        if kind is lattice:
            is_bottom = value == kind.bottom()
            return {"bottom": True} if is_bottom else {"lattice": _tag(value.reveal())}
    raise TypeError(f"{value!r} is of the type {kind.__name__}, for which there is no form")


def _value(given: Any, lattice: type[Lattice] | None = None) -> Any:
    """The value that `_tag` wrote down."""
    if not isinstance(given, dict):
        if given is None or isinstance(given, bool | int | str):
            return given
        raise ValueError(f"{given!r} is no value")
    ((word, inner),) = given.items()  # pyright: ignore[reportUnknownVariableType]
    if word in _TEXTS:
        return _TEXTS[word][2](str(inner))  # pyright: ignore[reportUnknownArgumentType]
    if word == "timedelta":
        return timedelta(*_items(inner))
    if word == "tuple":
        return tuple(map(_value, _items(inner)))
    if word == "set":
        return frozenset(map(_value, _items(inner)))
    if word in LATTICES:
        held = _value(inner)
        made = LATTICES[str(word)]  # pyright: ignore[reportUnknownArgumentType]
        return made() if held is None else made(held)  # type: ignore[call-arg]
    if lattice is not None and word in ("bottom", "lattice"):
        return lattice.bottom() if word == "bottom" else lattice.of(_value(inner))
    raise ValueError(f"`{word}` is no kind of value")


def _items(given: Any) -> Iterable[Any]:
    if not isinstance(given, list):
        raise ValueError(f"{given!r} is no list")
    return given  # pyright: ignore[reportUnknownVariableType]
