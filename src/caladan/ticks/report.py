"""What an instance shows: contents of collections as relations, and numbers of its ticks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from caladan.language.bloom.schema import CollectionKind, Schema
from caladan.language.bloom.values import ordered
from caladan.program import Column, Type
from caladan.session.result import Relation

if TYPE_CHECKING:
    import pyarrow as pa

    from caladan.ticks.engine import TickEngine


class Contents(Relation):
    """The facts of a collection after a tick; `rows()` has them as they are, None and all."""

    def __init__(self, schema: Schema, facts: list[tuple[Any, ...]]) -> None:
        self._facts_held = facts
        super().__init__(schema.name, _ArrowLater(schema, facts))
        self._kind = schema.kind

    def rows(self) -> list[tuple[Any, ...]]:
        """The facts, ordered by their columns from the left."""
        return sorted(self._facts_held, key=ordered)

    @property
    def value(self) -> Any:
        """The one value of a lattice."""
        return self._facts_held[0][0] if self._facts_held else None

    def __len__(self) -> int:
        return len(self._facts_held)

    def __iter__(self) -> Any:
        return iter(self.rows())

    def __contains__(self, fact: object) -> bool:
        return fact in self._facts_held


class _ArrowLater:
    """Facts that become columns of Arrow when somebody asks for these."""

    def __init__(self, schema: Schema, facts: list[tuple[Any, ...]]) -> None:
        self._schema = schema
        self._rows = facts
        self._loaded: list[pa.Array | None] | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        from caladan.data.schema import column_type

        found: list[Column] = []
        for name, data in zip(self._schema.columns, self._arrays(), strict=True):
            kind = None if data is None else column_type(data.type)
            found.append(Column(name, kind or (Type.OBJECT if self._rows else Type.STRING)))
        return tuple(found)

    def _arrays(self) -> list[pa.Array | None]:
        """A column of Arrow for each column, None where it has none for such values."""
        if self._loaded is None:
            import pyarrow as pa

            self._loaded = []
            for position in range(len(self._schema.columns)):
                try:
                    data = pa.array([row[position] for row in self._rows])
                except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
                    data = None
                self._loaded.append(data)
        return self._loaded

    def count(self) -> int:
        return len(self._rows)

    def arrow(self, limit: int | None = None) -> pa.Table:
        import pyarrow as pa

        if not self._rows:
            from caladan.data.schema import empty_table

            return empty_table(self.columns)
        whole = pa.table(dict(zip(self._schema.columns, self._arrays(), strict=True)))
        return whole if limit is None else whole.slice(0, limit)

    def spark(self, session: Any) -> Any:
        return session.createDataFrame(self.arrow())

    def close(self) -> None:
        """There is nothing to let go of."""


@dataclass(slots=True)
class TickStats:
    """Numbers of an instance: of all ticks, and of the last one."""

    ticks: int = 0
    seconds: float = 0.0
    scans: dict[str, int] = field(default_factory=dict[str, int])
    """How often each relation was gone through in full in the last tick."""
    rebuilt: tuple[str, ...] = ()
    """What the last tick derived from scratch."""
    repaired: tuple[str, ...] = ()
    """What it brought up to date from changes alone."""
    bulk: tuple[str, ...] = ()
    """What of `rebuilt` it handed to the columnar engine, since there was much to derive."""

    def ticked(self, engine: TickEngine, seconds: float) -> None:
        """A tick is over."""
        self.ticks += 1
        self.seconds += seconds
        self.scans = {}
        for extent in engine.scanned:
            self.scans[extent.name] = extent.scans
            extent.scans = 0
        engine.scanned.clear()
        self.rebuilt, self.repaired = tuple(engine.rebuilt), tuple(engine.repaired)
        self.bulk = tuple(engine.bulk)


__all__ = ["CollectionKind", "Contents", "TickStats"]
