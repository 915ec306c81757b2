"""The expressions of expressions.sql, and the table they are about."""

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

_REFUSED = "-- refused"
_SECTION = "-- section: "


@dataclass(frozen=True)
class Case:
    """An expression; `refused` if embedded refuses it."""

    section: str
    text: str
    refused: bool = False


def cases() -> list[Case]:
    """All expressions, in the order of the file."""
    section, found = "", list[Case]()
    for line in (Path(__file__).parent / "expressions.sql").read_text().splitlines():
        if line.startswith(_SECTION):
            section = line.removeprefix(_SECTION)
        elif line and not line.startswith("--"):
            text = line.removesuffix(_REFUSED).strip()
            found.append(Case(section, text, line.endswith(_REFUSED)))
    return found


def query(case: Case, name: str) -> str:
    """What a case selects, under a name."""
    return f"{case.text} AS {name}"


def rest(section: str) -> str:
    """What follows the SELECT list of a section."""
    if section == "aggregates":
        return "FROM t GROUP BY G ORDER BY G"
    return "FROM t ORDER BY K"


_MOMENTS = [
    dt.datetime(2024, 2, 29, 12, 34, 56, 789000),
    dt.datetime(2023, 12, 31, 23, 59, 59),
    dt.datetime(1969, 7, 20, 20, 17, 40, 5),
    None,
    dt.datetime(2024, 1, 1),
    dt.datetime(2000, 1, 31, 1, 2, 3, 400000),
    dt.datetime(2024, 12, 30, 6, 30),
]

TABLE = pa.table({
    "K": pa.array([1, 2, 3, 4, 5, 6, 7], pa.int32()),
    "G": pa.array([1, 1, 1, 2, 2, 3, 4], pa.int32()),
    "I": pa.array([7, -7, 3, None, 0, 1250, 3], pa.int32()),
    "I2": pa.array([2, 3, -2, 4, 5, 7, 1], pa.int32()),
    "L": pa.array([7, -3_000_000, 1 << 40, None, 0, 1250, 64], pa.int64()),
    "H": pa.array([7, -7, 300, None, 0, 1250, 3], pa.int16()),
    "Y": pa.array([7, -7, 100, None, 0, 1, 3], pa.int8()),
    "X": pa.array([1.5, -2.5, 0.125, None, 0.0, 1e6, 2.675], pa.float64()),
    "F": pa.array([1.5, -2.5, 0.25, None, 0.0, 1024.0, 2.75], pa.float32()),
    "S": pa.array(["Hello", "wörld", "abc", None, "", "Zz l", "a_b"], pa.string()),
    "P": pa.array(["a%b", "axb", "a_b", None, "a\\b", "50%", "a\\\\b"], pa.string()),
    "D": pa.array([None if m is None else m.date() for m in _MOMENTS], pa.date32()),
    "M": pa.array(_MOMENTS, pa.timestamp("us")),
    "N": pa.array(
        [None if n is None else Decimal(n) for n in
         ("1.5", "-2.25", "0.125", None, "0", "1000.001", "2.675")],
        pa.decimal128(38, 18),
    ),
    "Q": pa.array([True, False, None, True, False, True, True], pa.bool_()),
})  # fmt: skip
