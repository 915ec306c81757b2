"""What a command is given: data (`--data`, `--facts`), parameters, the options of a run."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

from caladan.data.source import FORMATS, suffix
from caladan.program import Program, Value
from caladan.program.diagnostics import Place, did_you_mean, error
from caladan.program.options import KNOWN, RunOptions
from caladan.program.values import guess
from caladan.session.definitions import defined, mentioned
from caladan.session.session import Session

if TYPE_CHECKING:
    from caladan.language.rasql import Script


def add_data(db: Session, program: Program | Script, arguments: argparse.Namespace) -> None:
    """Give the session the data that the arguments name."""
    given: dict[str, str | Path] = dict(arguments.data)
    if len(given) < len(arguments.data):
        names = [name for name, _ in arguments.data]
        raise error(
            "C050", f"`{next(n for n in names if names.count(n) > 1)}` is given data twice",
            help="a pattern, such as 'part*.csv', or a folder stands for several files",
        )  # fmt: skip
    if arguments.facts is not None:
        for name, path in files_of(program, Path(arguments.facts)):
            given.setdefault(name, path)
    headers = dict.fromkeys(arguments.header_of, True) | dict.fromkeys(
        arguments.no_header_of, False
    )
    for name in headers:
        if name not in given:
            raise error(
                "C050", f"no data is given for `{name}`, so it has no header",
                help=did_you_mean(name, given),
            )  # fmt: skip
    for name, path in given.items():
        header = headers.get(name, arguments.header)
        db.add(name, path, header=header, delimiter=arguments.delimiter)


def parameters(arguments: argparse.Namespace) -> dict[str, Value]:
    """The parameters, each the value its text looks like."""
    return {name: guess(text) for name, text in arguments.param}


def options(arguments: argparse.Namespace) -> RunOptions:
    """The options of a run, as far as the command has them; the session checks them."""
    return cast("RunOptions", {n: v for n, v in vars(arguments).items() if n in KNOWN})


def files_of(program: Program | Script, folder: Path) -> Iterator[tuple[str, Path]]:
    """For each relation of a program its file or folder in a folder of facts, if there is one."""
    if not folder.is_dir():
        raise error("C030", "no such folder of facts", Place(str(folder)))
    entries: dict[str, list[Path]] = {}
    for entry in sorted(folder.iterdir()):
        if entry.is_dir() or suffix(entry.name) in FORMATS:
            entries.setdefault(entry.name.partition(".")[0], []).append(entry)
    for name in dict.fromkeys(_names(program, entries)):
        found = entries.get(name, [])
        if len(found) > 1:
            names = ", ".join(path.name for path in found)
            raise error(
                "C050", f"{folder} has several files for {name}: {names}",
                help=f"say which: --data {name}={found[0]}",
            )  # fmt: skip
        for path in found:
            yield name, path


def _names(program: Program | Script, known: Iterable[str]) -> Iterator[str]:
    """The relations of a program; those of SQL by their names here, in upper or lower case."""
    if isinstance(program, Program):
        yield from defined(program)
        yield from mentioned(program)
    else:
        tables = program.tables
        yield from (name for name in known if name.lower() in tables)
