"""`caladan run`, `explain` and `check`: a program over data, its stages, its mistakes.

Answers go to stdout or into files: as tables for people, or as csv, json and json lines for
machines. To explain, Spark is started only for its own plans; without it, data is read in this
process, to decide what sizes decide. What a command is given (`--data`, `--facts`, parameters, the
options of a run) is taken in here for `test` and `repl` too.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from caladan.analysis.lint import warn_of_unneeded
from caladan.analysis.resolve import parameter_names
from caladan.engines.interface import (
    LazyEngine,
    check_connection,
    engine_for,
    settings_of,
)
from caladan.language import parse_goal
from caladan.language.deals.printer import literal
from caladan.program import Atom, Constant, Program, Value
from caladan.program.diagnostics import CaladanError, Place, did_you_mean, error
from caladan.program.events import Listener, sendable
from caladan.program.notation import count_things
from caladan.program.options import KNOWN, RunOptions
from caladan.program.transform import fresh
from caladan.program.values import guess
from caladan.session import display, inputs
from caladan.session.auto import Mover, finds_spark
from caladan.session.inputs import list_defined, list_mentioned
from caladan.session.listeners import Progress, progress
from caladan.session.result import REJECTED, Relation, Result, Stopped
from caladan.session.runners import DatalogRunner
from caladan.session.session import Session, connect

if TYPE_CHECKING:
    from rich.console import Console

    from caladan.language.rasql import Script


def add_data(db: Session, program: Program | Script, arguments: argparse.Namespace) -> None:
    """Give the session the data that the arguments name."""
    given: dict[str, str | Path] = dict(arguments.data)
    if len(given) < len(arguments.data):
        names = [name for name, _ in arguments.data]
        raise error(
            "C050", f"`{next(n for n in names if names.count(n) > 1)}` is given data twice",
            help="a pattern, such as 'part*.csv', or a folder names several files",
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


def check_given(program: Program | Script, arguments: argparse.Namespace) -> None:
    """C050 for data and parameters that nothing in the program reads: likely a wrong name."""
    if isinstance(program, Program):
        names, read = parameter_names(program), {*list_defined(program), *list_mentioned(program)}
    else:
        names, read = program.parameters, set(program.tables)
    is_sql = not isinstance(program, Program)
    for name, _ in arguments.data:
        if (name.lower() if is_sql else name) not in read:
            raise error(
                "C050", f"--data {name}=…: the program has no relation `{name}`",
                help=did_you_mean(name, read) or _list_names("it has", read),
            )  # fmt: skip
    if not names <= {name for name, _ in arguments.param}:
        return  # C020 will say which has no value, and which name comes near
    for name, _ in arguments.param:
        if name not in names:
            raise error(
                "C050", f"--param {name}=…: the program has no parameter `{name}`",
                help=did_you_mean(name, names) or _list_names("it has", names),
            )  # fmt: skip


def _list_names(start: str, names: Iterable[str]) -> str:
    known = ", ".join(f"`{name}`" for name in sorted(names))
    return f"{start} {known or 'none'}"


def parameters(arguments: argparse.Namespace) -> dict[str, Value]:
    """The parameters, each the value its text looks like."""
    return {name: guess(text) for name, text in arguments.param}


def options(arguments: argparse.Namespace) -> RunOptions:
    """The options of a run, as far as the command has them; the session checks them."""
    return cast("RunOptions", {n: v for n, v in vars(arguments).items() if n in KNOWN})


def files_of(program: Program | Script, folder: Path) -> Iterator[tuple[str, Path]]:
    """For each relation of a program its file or folder in a folder of facts, if there is one."""
    from caladan.data.source import FORMATS, suffix

    if not folder.is_dir():
        raise error("C030", "no such folder", Place(str(folder)))
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
                help=f"choose one: --data {name}={found[0]}",
            )  # fmt: skip
        for path in found:
            yield name, path


def _names(program: Program | Script, known: Iterable[str]) -> Iterator[str]:
    """The relations of a program; those of SQL by their names here, in upper or lower case."""
    if isinstance(program, Program):
        yield from list_defined(program)
        yield from list_mentioned(program)
    else:
        tables = program.tables
        yield from (name for name in known if name.lower() in tables)


def run(arguments: argparse.Namespace) -> int:
    """Run a program and show what it asks for; also what a stopped run had found until then."""
    program = _replace_queries(
        inputs.programs(arguments.program, arguments.language), arguments.query
    )
    check_format(program, arguments)
    check_given(program, arguments)
    live = None if arguments.quiet else progress()
    if live is not None:
        live.say("starting" if arguments.engine == "auto" else f"starting {arguments.engine}")
    try:
        return _run(program, arguments, live)
    finally:
        _close(live)


def _connect(arguments: argparse.Namespace, listeners: Sequence[Listener]) -> Session:
    """A session; Spark starts when a run first needs it, so that mistakes are reported before."""
    engine, master, conf = arguments.engine, arguments.master, dict(arguments.conf)
    if engine == "auto":
        engine = "spark" if master or conf or finds_spark() else None
    if engine == "spark":
        check_connection(engine, master)
        return Session(_spark(master, settings_of(conf)), listeners)
    if engine is not None:
        return Session(engine_for(engine, master, conf), listeners)
    mover = Mover(lambda _: _spark(None, {}), partial(_note, arguments))
    return Session(engine_for("embedded", None, None), listeners, mover)


def _spark(master: str | None, conf: Mapping[str, str]) -> LazyEngine:
    return LazyEngine("spark", partial(engine_for, "spark", master, conf))


def _run(program: Program | Script, arguments: argparse.Namespace, live: Progress | None) -> int:
    with _connect(arguments, [live] if live else []) as db:
        add_data(db, program, arguments)
        try:
            result = DatalogRunner(db).run(program, parameters(arguments), **options(arguments))
        except Stopped as stopped:
            _close(live)
            if stopped.result.stats.engine:  # else it did not come to evaluate anything
                _hand_out(stopped.result, arguments)
            raise
        _close(live)
        if not arguments.query:
            _warn_unneeded(program)
        _hand_out(result, arguments)
    return 0


def _replace_queries(program: Program | Script, queries: list[str]) -> Program | Script:
    """The program with the queries of the command line in place of its own."""
    if not queries:
        return program
    if not isinstance(program, Program):
        raise error("C050", "--query needs rules; add a SELECT to the script instead")
    goals = [parse_goal(query, name="--query") for query in queries]
    exports = [goal for goal in program.goals if goal.export]
    return replace(program, goals=(*exports, *goals))


_AUTO: Final = "chosen for its size; --engine spark runs it on Spark"


def _hand_out(result: Result, arguments: argparse.Namespace) -> None:
    format = arguments.format or ("table" if arguments.out is None else "csv")
    is_auto = arguments.engine == "auto"
    if is_auto and format != "table" and result.stats.engine == "embedded":
        _note(arguments, f"ran on embedded ({_AUTO})")
    if arguments.out is not None:
        for name, path in write(result, arguments.out, format):
            _note(arguments, f"{name}: {path}")
    else:
        on_stdout(result, format, quiet=arguments.quiet, is_auto=is_auto)
    if REJECTED in result and arguments.out is not None:
        place = Path(arguments.out)
        folder = place.parent if _is_file(arguments.out) else place
        _note(arguments, f"the rows that were set aside are in {REJECTED} in {folder}")
    if arguments.stats is not None:
        from caladan.data.output import write_text

        write_text(
            arguments.stats, json.dumps(result.stats.to_dict(), indent=2, default=sendable) + "\n"
        )


def _note(arguments: argparse.Namespace, text: str) -> None:
    if not arguments.quiet:
        print(text, file=sys.stderr)


def _close(live: Progress | None) -> None:
    if live is not None:
        live.close()


def explain(arguments: argparse.Namespace) -> int:
    """Print a stage, or all of them."""
    program = inputs.programs(arguments.program, arguments.language)
    check_given(program, arguments)
    engine, master = arguments.engine, arguments.master
    starts = engine == "spark" and arguments.stage == "spark"
    reader = "reference" if engine == "reference" else "embedded"
    with connect("spark", master=master) if starts else connect(reader) as db:
        add_data(db, program, arguments)
        text = db.explain(
            program,
            arguments.stage,
            html=arguments.html,
            params=parameters(arguments),
            engine=engine,
            master=None if starts or engine != "spark" else master or "local[*]",
            **options(arguments),
        )
    print(text.rstrip())
    if arguments.html is not None:
        print(f"wrote {arguments.html}", file=sys.stderr)
    return 0


def _warn_unneeded(program: Program | Script) -> None:
    """Warn of rules that no goal needs: a command ends before anybody could ask for more."""
    for warning in warn_of_unneeded(program) if isinstance(program, Program) else ():
        print(warning, file=sys.stderr)


def check(arguments: argparse.Namespace) -> int:
    """Compile a program, and say that it is all right; what is not is raised."""
    program = inputs.programs(arguments.program, arguments.language)
    check_given(program, arguments)
    with connect("reference") as db:
        add_data(db, program, arguments)
        warnings = db.check(program, parameters(arguments))
    for warning in warnings:
        print(warning, file=sys.stderr)
    _warn_unneeded(program)
    name = " ".join(arguments.program)
    if not isinstance(program, Program):
        count = len(program.statements)
        print(f"{name}: ok, {count_things(count, 'statement')}")
        return 0
    rules, goals = (
        count_things(len(program.rules), "rule"),
        count_things(len(program.goals), "goal"),
    )
    print(f"{name}: ok, {rules}, {goals}")
    return 0


SHOWN: Final = 20  # rows of a table


def check_format(program: Program | Script, arguments: argparse.Namespace) -> None:
    """Refuse formats that cannot show what the program asks for, before it is run."""
    asked, what = _count_wanted(program)
    if arguments.out is not None:
        if arguments.format == "table":
            raise error("C050", "a table can be printed, but not written: use --format csv")
        if _is_file(arguments.out):
            _check_file(arguments.out, arguments.format, asked, what)
        return
    if arguments.format == "parquet":
        raise error("C050", "parquet cannot be printed: add --out DIR")
    if arguments.format in ("csv", "tsv", "jsonl") and asked != 1:
        raise error(
            "C050",
            f"{arguments.format} prints one relation, but the program has {asked} {what}",
            help="ask for one with --query, use --format json, or write files with --out DIR",
        )


def _is_file(out: str) -> bool:
    """True if what `--out` names is a file: its suffix is that of a format, and no folder is so
    called.
    """
    from caladan.data.output import FORMATS
    from caladan.data.source import suffix

    return suffix(out) in FORMATS and not Path(out).is_dir()


def _check_file(out: str, format: str | None, asked: int, what: str) -> None:
    from caladan.data.output import format_of

    if format is not None and format_of(out, None) != format:
        raise error("C050", f"--out {out} is not a {format} file")
    if asked != 1:
        raise error(
            "C050", f"{out} is one file, but the program has {asked} {what}",
            help="ask for one with --query, or name a folder: --out DIR",
        )  # fmt: skip


def _count_wanted(program: Program | Script) -> tuple[int, str]:
    """How many relations a program asks for, and what to call them."""
    if not isinstance(program, Program):
        return len(program.queries), "queries"
    if program.goals:
        return len(program.goals), "goals"
    return len({rule.head.relation for rule in program.rules}), "relations without a query"


def on_stdout(result: Result, format: str, *, quiet: bool, is_auto: bool = False) -> None:
    """Print what was asked for, and with csv and json nothing else."""
    relations = list(_shown(result))
    if format == "table":
        _tables(result, relations, quiet=quiet, is_auto=is_auto)
        return
    from caladan.data.output import to_text

    if format in ("csv", "tsv", "jsonl"):
        to_text(relations[0].ordered(), sys.stdout, format)
    elif len(relations) == 1:
        to_text(relations[0].ordered(), sys.stdout, "json")
    else:
        _object(relations)


def write(result: Result, out: str, format: str) -> Iterator[tuple[str, Path]]:
    """Write what was asked for into files; gives the name and the path of each."""
    taken: set[str] = set()
    relations = list(_shown(result))
    if REJECTED in result:
        relations.append(result[REJECTED])
    for relation in relations:
        if _is_file(out):
            path = Path(out)
            path = path.with_name(f"{REJECTED}{path.suffix}") if relation.name == REJECTED else path
        else:
            stem = re.split(r"[^\w.-]", relation.name, maxsplit=1)[0]
            path = Path(out) / f"{fresh(stem, taken)}.{format}"
        relation.write(path, mode="overwrite")
        yield f"{relation.name}, {count_things(relation.count(), 'fact')}", path


def _shown(result: Result) -> Iterator[Relation]:
    """The answers and exports; without goals, every relation."""
    if result.answers or result.exports:
        yield from (result[name] for name in dict.fromkeys(result.exports))
        yield from result.answers
    else:
        yield from (result[name] for name in result if name != REJECTED)


def _tables(result: Result, relations: list[Relation], *, quiet: bool, is_auto: bool) -> None:
    out = console()
    for relation in relations:
        table(out, relation, quiet=quiet)
    if not quiet:
        stats = result.stats
        line = f"{stats.seconds:.2f} s on {stats.engine}, {count_things(stats.rounds, 'round')}"
        if is_auto and stats.engine == "embedded":
            line += f" ({_AUTO})"
        if stats.kernels:
            kernels = count_things(stats.kernels, "kernel")
            line += f"; {stats.compile_seconds:.2f} s to compile {kernels}, once on this machine"
        out.print(line, style="dim")


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
        out.print(count_things(relation.count(), "fact"), style="dim")
    out.print()


def fact(relation: str, row: tuple[Any, ...]) -> str:
    """A fact as it is written in a program."""
    try:
        return literal(Atom(relation, tuple(map(Constant, row))))
    except CaladanError:  # a value that the language has no way to write
        return f"{relation}({', '.join(map(str, row))})"


def _object(relations: list[Relation]) -> None:
    """One JSON object: the rows of each relation under its name or goal."""
    from caladan.data.output import to_text

    separator = "{\n"
    for relation in relations:
        rows = io.StringIO()
        to_text(relation.ordered(), rows, "json")
        name = json.dumps(relation.name, ensure_ascii=False)
        sys.stdout.write(f"{separator}{name}: {rows.getvalue().rstrip()}")
        separator = ",\n"
    sys.stdout.write("\n}\n" if relations else "{}\n")
