"""The folders of tests/programs: what is in them, as README.md describes it."""

import csv
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from caladan.language import parse
from caladan.program import Program, Type, Value
from caladan.program.nested import Packed, python, unpack
from caladan.program.types import type_named
from caladan.program.values import parse as parse_value

ROOT = Path(__file__).parent


@dataclass(frozen=True)
class Expected:
    """The rows a goal must give, and the types of their columns."""

    types: tuple[Type, ...]
    rows: list[tuple[Value, ...]]


@dataclass(frozen=True)
class Folder:
    """A program with its data and its expected answers."""

    path: Path
    meta: dict[str, Any]

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def file(self) -> Path:
        return next(self.path.glob("program.*"))

    @property
    def text(self) -> str:
        return self.file.read_text(encoding="utf-8")

    @property
    def program(self) -> Program:
        return parse(self.text, name=str(self.file))

    @property
    def is_sql(self) -> bool:
        return self.file.suffix == ".sql"

    @property
    def data(self) -> Path:
        """The folder with the facts and the expected answers: its own, or that of its twin."""
        return ROOT / self.meta["twin"] if "twin" in self.meta else self.path

    @property
    def params(self) -> dict[str, Any]:
        return self.meta.get("params", {})

    @property
    def replay(self) -> dict[str, Any]:
        """What once made it fail: thresholds, threads, a grade of search, a strategy."""
        return self.meta.get("replay", {})

    @property
    def is_ordered(self) -> bool:
        return self.meta.get("ordered", False)

    @property
    def facts(self) -> dict[str, Path]:
        """The data files by relation."""
        return {path.stem: path for path in sorted(self.data.glob("facts/*"))}

    @property
    def oracles(self) -> dict[str, str]:
        """The SQL queries by the stem of the expected file they must agree with."""
        return {path.stem: path.read_text() for path in sorted(self.path.glob("oracle/*.sql"))}

    def queries(self) -> list[str]:
        """For each query of the program, in order, the stem of its expected file."""
        if "answers" in self.meta:
            return self.meta["answers"]
        asked = [goal.atom.relation for goal in self.program.goals if not goal.export]
        return [
            f"{name}.{asked[:i].count(name) + 1}" if asked.count(name) > 1 else name
            for i, name in enumerate(asked)
        ]

    def exports(self) -> dict[str, str]:
        """The exported relations, each with the stem of its expected file."""
        if self.is_sql:
            return {}
        exported = [goal.atom.relation for goal in self.program.goals if goal.export]
        return {name: f"{name}.export" for name in exported}

    def expected(self, stem: str) -> Expected:
        """What the goal with this stem must give."""
        with (self.data / "expected" / f"{stem}.csv").open(newline="", encoding="utf-8") as file:
            header, *lines = csv.reader(file)
        if header == ["()"]:
            return Expected((), [() for _ in lines])
        types = tuple(type_named(word) for word in header)
        return Expected(
            types,
            [
                tuple(_value(field, type) for field, type in zip(line, types, strict=True))
                for line in lines
            ],
        )


def _value(field: str, type: Type) -> Any:
    """A field as rows have it: a list is a tuple there."""
    value = parse_value(field, type)
    return python(unpack(value), type) if isinstance(value, Packed) else value


def in_turn(folders: Iterable[Folder], *settings: Any) -> list[Any]:
    """Each folder with one of some settings, in turn: all meet, but not each with each.

    `make fuzz` draws the other pairs.
    """
    return [
        pytest.param(folder, setting, id=f"{folder.name}-{number % len(settings)}")
        for number, folder in enumerate(folders)
        for setting in [settings[number % len(settings)]]
    ]


def folders(*, sql: bool = False) -> list[Folder]:
    """Every folder that has a program of rules; with `sql`, those with a script too."""
    found = [
        Folder(meta.parent, tomllib.loads(meta.read_text(encoding="utf-8")))
        for meta in sorted(ROOT.glob("*/meta.toml"))
    ]
    return [folder for folder in found if sql or not folder.is_sql]
