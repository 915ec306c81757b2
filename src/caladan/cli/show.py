"""What a run asks for, as tables for people, or as csv, json and json lines for machines."""

from __future__ import annotations

import argparse
import io
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from caladan.data.output import to_text
from caladan.language.deals.printer import literal
from caladan.program import Atom, Constant, Program
from caladan.program.diagnostics import CaladanError, error
from caladan.session import display
from caladan.session.result import REJECTED, Relation, Result

if TYPE_CHECKING:
    from rich.console import Console

    from caladan.language.rasql import Script

SHOWN: Final = 20  # rows of a table


def check_format(program: Program | Script, arguments: argparse.Namespace) -> None:
    """Refuse formats that cannot show what the program asks for, before it is run."""
    if arguments.out is not None:
        if arguments.format == "table":
            raise error("C050", "a table can be printed, but not written: use --format csv")
        return
    if arguments.format == "parquet":
        raise error("C050", "parquet cannot be printed: add --out DIR")
    asked, what = _wanted(program)
    if arguments.format in ("csv", "jsonl") and asked != 1:
        raise error(
            "C050",
            f"{arguments.format} can show one relation, and the program has {asked} {what}",
            help="ask for one with --query, use --format json, or write files with --out DIR",
        )


def _wanted(program: Program | Script) -> tuple[int, str]:
    """How many relations a program asks for, and what to call them."""
    if not isinstance(program, Program):
        return len(program.queries), "queries"
    if program.goals:
        return len(program.goals), "goals"
    return len({rule.head.relation for rule in program.rules}), "relations without a query"


def on_stdout(result: Result, format: str, *, quiet: bool) -> None:
    """Print what was asked for, and with csv and json nothing else."""
    relations = list(_asked(result))
    if format == "table":
        _tables(result, relations, quiet=quiet)
    elif format in ("csv", "jsonl"):
        to_text(relations[0].ordered(), sys.stdout, format)
    elif len(relations) == 1:
        to_text(relations[0].ordered(), sys.stdout, "json")
    else:
        _object(relations)


def write(result: Result, folder: Path, format: str) -> Iterator[tuple[str, Path]]:
    """Write what was asked for into files; gives the name and the path of each."""
    taken: set[str] = set()
    relations = list(_asked(result))
    if REJECTED in result:
        relations.append(result[REJECTED])
    for relation in relations:
        stem = re.split(r"[^\w.-]", relation.name, maxsplit=1)[0]
        name, number = stem, 2
        while name in taken:
            name, number = f"{stem}_{number}", number + 1
        taken.add(name)
        path = folder / f"{name}.{format}"
        relation.write(path, mode="overwrite")
        yield f"{relation.name}, {_counted(relation.count())}", path


def _asked(result: Result) -> Iterator[Relation]:
    """The answers and exports; without goals, every relation."""
    if result.answers or result.exports:
        yield from (result[name] for name in dict.fromkeys(result.exports))
        yield from result.answers
    else:
        yield from (result[name] for name in result if name != REJECTED)


def _tables(result: Result, relations: list[Relation], *, quiet: bool) -> None:
    out = console()
    for relation in relations:
        table(out, relation, quiet=quiet)
    if not quiet:
        stats = result.stats
        rounds = f"{stats.rounds:,} {'round' if stats.rounds == 1 else 'rounds'}"
        out.print(f"{stats.seconds:.2f} s on {stats.engine}, {rounds}", style="dim")


def console() -> Console:
    """Where tables are drawn."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True)


def table(out: Console, relation: Relation, *, quiet: bool) -> None:
    """Draw the first rows of a relation."""
    rows = relation.head(SHOWN)
    out.print(relation.name, style="bold", markup=False)
    out.print(display.terminal(relation, rows))
    if more := display.remainder(len(rows), relation.count()):
        out.print(more)
    if not quiet:
        out.print(_counted(relation.count()), style="dim")
    out.print()


def fact(relation: str, row: tuple[Any, ...]) -> str:
    """A fact as it is written in a program."""
    try:
        return literal(Atom(relation, tuple(map(Constant, row))))
    except CaladanError:  # a value that the language has no way to write
        return f"{relation}({', '.join(map(str, row))})"


def _object(relations: list[Relation]) -> None:
    """One JSON object: the rows of each relation under its name or goal."""
    separator = "{\n"
    for relation in relations:
        rows = io.StringIO()
        to_text(relation.ordered(), rows, "json")
        name = json.dumps(relation.name, ensure_ascii=False)
        sys.stdout.write(f"{separator}{name}: {rows.getvalue().rstrip()}")
        separator = ",\n"
    sys.stdout.write("\n}\n" if relations else "{}\n")


def _counted(facts: int) -> str:
    return f"{facts:,} {'fact' if facts == 1 else 'facts'}"
