"""The body that cells solve, and what of a rule's plan it takes in. Needs no Spark, no kernels.

Facts of all atoms travel in one frame: the number of the cell, that of the atom, and slots for its
columns, so many of each type as the atom with the most has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from caladan.engines.spark.columns.physical import slots
from caladan.program import Column, Comparison, Constant, Type, Variable
from caladan.rules.body import BodyPart, Scan

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class CubeBody:
    """Atoms by their variables, the types of these, and conditions on them."""

    atoms: tuple[tuple[str, ...], ...]
    types: Mapping[str, Type]
    conditions: tuple[Comparison, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        """All variables, in order of first appearance."""
        return tuple(dict.fromkeys(name for atom in self.atoms for name in atom))

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the solutions."""
        return tuple(Column(name, self.types[name]) for name in self.variables)

    def slots(self, atom: Sequence[str]) -> dict[str, str]:
        """The slot of each variable of an atom."""
        return dict(zip(atom, slots([self.types[name] for name in atom]), strict=True))

    def all_slots(self) -> dict[str, Type]:
        """Every slot with its type."""
        pairs = (pair for atom in self.atoms for pair in self.slots(atom).items())
        return {slot: self.types[name] for name, slot in pairs}


def cyclic_part(parts: Sequence[BodyPart]) -> tuple[list[Scan], tuple[Comparison, ...]] | None:
    """The scans of a cyclic body, with the conditions among them; None if cells cannot solve it."""
    scans = [part for part in parts if isinstance(part, Scan)]
    conditions = tuple(part for part in parts if isinstance(part, Comparison))
    is_plain = len(scans) + len(conditions) == len(parts) and all(
        isinstance(side, Variable | Constant) for c in conditions for side in (c.left, c.right)
    )
    if not is_plain or len(scans) < 3 or not all(scan.variables for scan in scans):
        return None
    from caladan.join.hypergraph import is_cyclic

    return (scans, conditions) if is_cyclic([scan.variables for scan in scans]) else None


def solver(body: CubeBody) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that Spark maps over the facts of cells."""

    def solve(facts: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from caladan.data.schema import compute
        from caladan.engines.spark.cube.task import solutions
        from caladan.engines.spark.session.daemon import settle

        settle()  # Spark has loaded pandas for this

        received = list(facts)
        if received:
            everything: Any = pa.Table.from_batches(received)
            for cell in compute.unique(everything.column("cell")).to_pylist():
                here = compute.equal(everything.column("cell"), cell)
                yield from solutions(body, everything.filter(here))

    return solve
