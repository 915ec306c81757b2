"""Inputs of cases, as Arrow tables: files of CALADAN_DATA, or what a generator makes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from bench.generate import GENERATORS, Tables

ROOT = Path(__file__).parent.parent
FOLDER = Path(os.environ.get("CALADAN_DATA", ROOT.parent / "shared" / "data"))


@dataclass(frozen=True)
class Files:
    """Relations from text files: for each its path below CALADAN_DATA and its column names."""

    paths: Mapping[str, tuple[str, tuple[str, ...]]]
    text: bool = False  # columns are strings; else whole numbers
    delimiter: str | None = None
    skip: int = 0  # lines before the first fact

    @property
    def is_present(self) -> bool:
        return all((FOLDER / path).is_file() for path, _ in self.paths.values())

    def tables(self) -> Tables:
        return {
            name: self._table(FOLDER / path, columns)
            for name, (path, columns) in self.paths.items()
        }

    def _table(self, path: Path, columns: tuple[str, ...]) -> pa.Table:
        type = pa.string() if self.text else pa.int32()
        schema = dict.fromkeys(columns, type)
        if path.name.removesuffix(".gz").endswith(".csv") and not path.stat().st_size:
            return pa.table({name: pa.array([], type) for name in columns})
        try:
            return csv.read_csv(
                path,
                csv.ReadOptions(column_names=list(columns), skip_rows=self.skip),
                csv.ParseOptions(
                    delimiter=self.delimiter or ("\t" if path.suffix == ".tsv" else ","),
                    quote_char=False,
                ),
                csv.ConvertOptions(column_types=schema, strings_can_be_null=False),
            )
        except pa.ArrowInvalid as problem:
            if "Empty CSV" in str(problem):
                return pa.table({name: pa.array([], type) for name in columns})
            raise


@dataclass(frozen=True)
class Made:
    """Relations from a generator."""

    generator: str
    arguments: Mapping[str, int] = field(default_factory=dict)

    is_present = True

    def tables(self) -> Tables:
        return GENERATORS[self.generator](**self.arguments)


def graph(file: str) -> Files:
    """A graph as the relation `arc`."""
    return Files({"arc": (f"graphs/{file}", ("A", "B"))})
