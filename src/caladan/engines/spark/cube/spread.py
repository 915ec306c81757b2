"""Facts of all atoms, to the cells where they are needed.

The number of a cell is made of one digit for each variable, its slice. A fact goes to all cells
whose digits agree with its values; of a variable that its atom does not have, every digit does.

A value that many facts have would fill its slice. So for a variable with such heavy values, one of
its atoms is the *anchor*: there, facts with a heavy value are dealt out over all slices, by a hash
of the whole fact, and the other atoms send theirs to every slice. Each solution is still found in
one cell: the one to which the facts of the anchors went.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf

from caladan.data.schema import compute
from caladan.engines.spark.choice import (
    CELLS_FROM,
    FULL,
    PAIRS,
    has_cyclic_body,
    may_meet_often,
    product,
    shares,
)
from caladan.engines.spark.columns.types import fill_slots, schema
from caladan.engines.spark.cube.plan import CubeBody, solver
from caladan.engines.spark.session.connect import is_connect, parallelism
from caladan.engines.spark.session.workers import is_known_lacking, obstacle, with_own_python
from caladan.engines.spark.session.workspace import Workspace
from caladan.program import Type
from caladan.rules.program import DeltaRule

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

WORTH_IT: Final = CELLS_FROM
SampleRows: TypeAlias = "list[Any]"  # Arrow tables of slots, one for each atom
_ONE_CELL: Final = 2 * FULL  # facts that one cell has solved in the time of a job

_SAMPLED: Final = 50_000  # facts of an atom that are looked at for frequent values
_HEAVY: Final = 4  # a heavy value has so many times less than a slice, or more
_AT_MOST: Final = 100  # heavy values of a variable


def solve_by_cells(
    body: CubeBody,
    given: Sequence[tuple[DataFrame, int | None]],
    columns: Mapping[str, str],
    *,
    is_round: bool = False,
) -> DataFrame | None:
    """A frame of the solutions; None where joins do it sooner, or sizes are not known.

    Each atom has a frame with a column for each variable, named as `columns` says, and a number of
    facts. Whether many meet a sample says; that takes a job, as long as one cell takes for few
    facts, unless a round has to do so again and again.
    """
    atoms = [AtomFrame(frame, size) for frame, size in given if size is not None]
    frame = given[0][0]
    if len(atoms) < len(given) or is_known_lacking(frame.sparkSession):
        return None  # its executors may not have what solves cells
    sizes, samples = [atom.size for atom in atoms], None
    if sum(sizes) < WORTH_IT:
        if not may_meet_often(sizes):
            return None
        if not is_round and sum(sizes) <= _ONE_CELL:
            return solve_cells(body, atoms, columns, 1)
        samples = _samples(body, atoms, columns)
        if _estimate_meeting(body, atoms, samples) < PAIRS:
            return None
    return solve_cells(body, atoms, columns, cells_for(frame), samples)


def ask(rules: Iterable[DeltaRule], workspace: Workspace) -> None:
    """Find out whether executors have what solves cells, if one of the rules may want it."""
    session: Any = workspace.session
    if any(map(has_cyclic_body, rules)):
        spark = session if is_connect(session) else session.sparkContext
        with suppress(PySparkException, Py4JError):  # what cannot be asked is not relied on
            obstacle(spark, workspace.ship, workspace.check)


def cells_for(frame: DataFrame) -> int:
    """How many cells there may be: as many as are solved at the same time."""
    return parallelism(frame.sparkSession)


@dataclass(frozen=True, slots=True)
class AtomFrame:
    """An atom's facts: a frame with a column for each variable, and how many there are."""

    frame: DataFrame
    size: int


def solve_cells(
    body: CubeBody,
    atoms: Sequence[AtomFrame],
    columns: Mapping[str, str],
    cells: int,
    samples: SampleRows | None = None,
) -> DataFrame:
    """A frame of the solutions."""
    sized = [(names, atom.size) for names, atom in zip(body.atoms, atoms, strict=True)]
    chosen = shares(sized, cells)
    heavy: dict[str, tuple[int, list[Any]]] = {}
    if cells > 1:  # one has no slices to be uneven
        heavy = _heavy(body, atoms, samples or _samples(body, atoms, columns), chosen)
    frames = [
        _sent(body, number, atom.frame, columns, chosen, heavy) for number, atom in enumerate(atoms)
    ]
    together: Any = reduce(lambda one, other: one.union(other), frames)
    count = product(list(chosen), chosen)
    if hasattr(together, "repartitionById"):  # Spark 4.1
        together = together.repartitionById(count, sf.col("cell"))
    else:
        together = together.repartition(count, sf.col("cell"))
    made = partial(together.mapInArrow, solver(body), schema(body.columns))
    found: Any = with_own_python(made)
    return found.toDF(*(columns[name] for name in body.variables))


def _sent(
    body: CubeBody,
    number: int,
    frame: DataFrame,
    columns: Mapping[str, str],
    shares: Mapping[str, int],
    heavy: Mapping[str, tuple[int, list[Any]]],
) -> DataFrame:
    """The facts of an atom, once for each cell they go to, in slots."""
    atom = body.atoms[number]
    own = [sf.col(columns[name]) for name in atom]
    cell, stride = sf.lit(0), 1
    everywhere = [0]  # what digits of variables that the atom does not have may add
    for name, share in shares.items():
        steps = [stride * digit for digit in range(share)]
        if name not in atom:
            everywhere = [cell + step for cell in everywhere for step in steps]
        elif share > 1:
            value = sf.col(columns[name])
            digit = _slice([value], [body.types[name]], share) * stride
            anchor, values = heavy.get(name, (number, []))
            if values and anchor == number:
                dealt = _slice(own, [body.types[v] for v in atom], share) * stride
                digit = sf.when(value.isin(*values), dealt).otherwise(digit)
            elif values:
                sent = sf.when(value.isin(*values), _array(steps)).otherwise(sf.array(digit))
                frame = frame.select("*", sf.explode(sent).alias(f"digit {name}"))
                digit = sf.col(f"`digit {name}`")
            cell = cell + digit
        stride *= share
    if len(everywhere) > 1:
        frame = frame.select("*", sf.explode(_array(everywhere)).alias("everywhere"))
        cell = cell + sf.col("everywhere")
    return _fill_slots(body, number, frame, columns, cell)


def _fill_slots(
    body: CubeBody, number: int, frame: DataFrame, columns: Mapping[str, str], cell: Column
) -> DataFrame:
    slots = {slot: columns[name] for name, slot in body.slots(body.atoms[number]).items()}
    own = fill_slots(slots, body.all_slots())
    return frame.select(cell.alias("cell"), sf.lit(number).alias("atom"), *own)


def _array(values: Sequence[int]) -> Column:
    return sf.array(*map(sf.lit, values))


def _slice(values: Sequence[Column], types: Sequence[Type], share: int) -> Column:
    """The slice of some values; -0.0 is 0.0."""
    pairs = zip(values, types, strict=True)
    same = [value + sf.lit(0.0) if type is Type.DOUBLE else value for value, type in pairs]
    return sf.pmod(sf.xxhash64(*same), sf.lit(share)).cast("int")


def _heavy(
    body: CubeBody,
    atoms: Sequence[AtomFrame],
    samples: SampleRows,
    shares: Mapping[str, int],
) -> dict[str, tuple[int, list[Any]]]:
    """For variables that have heavy values: the anchor, and these values."""
    met: dict[str, list[tuple[float, int, list[Any]]]] = {}
    for number, (names, atom) in enumerate(zip(body.atoms, atoms, strict=True)):
        sample, slots = samples[number], body.slots(names)
        for name in (name for name in names if shares.get(name, 1) > 1):
            counted = compute.value_counts(sample.column(slots[name])).to_pylist()
            least = max(sample.num_rows / (_HEAVY * shares[name]), 1)
            found = [(each["counts"], each["values"]) for each in counted if each["counts"] > least]
            if found:
                found.sort(key=lambda pair: pair[0], reverse=True)
                facts = sum(count for count, _ in found) / sample.num_rows * atom.size
                values = [value for _, value in found[:_AT_MOST]]
                met.setdefault(name, []).append((facts, number, values))
    return {
        name: (max(each, key=lambda m: m[0])[1], list(dict.fromkeys(v for m in each for v in m[2])))
        for name, each in met.items()
    }


def _estimate_meeting(body: CubeBody, atoms: Sequence[AtomFrame], samples: SampleRows) -> float:
    """How many facts of the first atom and of one it shares variables with meet, estimated."""
    first, *others = body.atoms
    other = next((i for i, names in enumerate(others, 1) if {*names} & {*first}), None)
    if other is None:
        return 0
    shared = [name for name in first if name in body.atoms[other]]
    times, counted = 1.0, list[Any]()
    for number in (0, other):
        sample, slots = samples[number], body.slots(body.atoms[number])
        keys = sample.select([slots[name] for name in shared]).rename_columns(shared)
        counted.append(keys.group_by(shared).aggregate([([], "count_all")]))
        times *= atoms[number].size / max(sample.num_rows, 1)
    both = counted[0].join(counted[1], shared, join_type="inner", right_suffix=" there")
    pairs = compute.multiply(both.column("count_all"), both.column("count_all there"))
    return times * (compute.sum(pairs).as_py() or 0)


def _samples(body: CubeBody, atoms: Sequence[AtomFrame], columns: Mapping[str, str]) -> SampleRows:
    """Some facts of each atom, in slots, as Arrow tables."""
    samples = [
        _fill_slots(
            body, n, a.frame.sample(min(1.0, _SAMPLED / max(a.size, 1)), 1), columns, sf.lit(0)
        )
        for n, a in enumerate(atoms)
    ]
    together: Any = reduce(lambda one, other: one.union(other), samples)
    sampled = together.toArrow()
    numbers = sampled.column("atom")
    return [sampled.filter(compute.equal(numbers, number)) for number in range(len(atoms))]
