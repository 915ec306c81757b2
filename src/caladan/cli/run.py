"""`caladan run`, `explain` and `check`: a program over data, its stages, its mistakes.

Answers go to stdout or into files. To explain, Spark is started only for its own plans; without it,
data is read in this process, to decide what sizes decide.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from caladan.cli import show
from caladan.cli.facts import add_data, options, parameters
from caladan.data.output import write_text
from caladan.language import parse_goal
from caladan.program import Program
from caladan.program.diagnostics import error
from caladan.program.events import sendable
from caladan.session import inputs
from caladan.session.listeners import Progress, progress
from caladan.session.result import REJECTED, Result, Stopped
from caladan.session.session import connect, connect_later

if TYPE_CHECKING:
    from caladan.language.rasql import Script


def run(arguments: argparse.Namespace) -> int:
    """Run a program and show what it asks for; also what a stopped run had found until then."""
    program = _asked(inputs.programs(arguments.program, arguments.language), arguments.query)
    show.check_format(program, arguments)
    live = None if arguments.quiet else progress()
    if live is not None:
        live.say(f"starting {arguments.engine}")
    try:
        return _run(program, arguments, live)
    finally:
        _close(live)


def _run(program: Program | Script, arguments: argparse.Namespace, live: Progress | None) -> int:
    with connect_later(
        arguments.engine,
        master=arguments.master,
        conf=dict(arguments.conf),
        listeners=[live] if live else [],
    ) as db:
        add_data(db, program, arguments)
        try:
            result = db.run(program, parameters(arguments), **options(arguments))
        except Stopped as stopped:
            _close(live)
            if stopped.result.stats.engine:  # else it did not come to evaluate anything
                _hand_out(stopped.result, arguments)
            raise
        _close(live)
        _hand_out(result, arguments)
    return 0


def _asked(program: Program | Script, queries: list[str]) -> Program | Script:
    """The program with the queries of the command line in place of its own."""
    if not queries:
        return program
    if not isinstance(program, Program):
        raise error("C050", "--query asks a goal of rules; write a SELECT into the script instead")
    goals = [parse_goal(query, name="--query") for query in queries]
    exports = [goal for goal in program.goals if goal.export]
    return replace(program, goals=(*exports, *goals))


def _hand_out(result: Result, arguments: argparse.Namespace) -> None:
    if arguments.out is not None:
        for name, path in show.write(result, Path(arguments.out), arguments.format or "csv"):
            _note(arguments, f"{name}: {path}")
    else:
        show.on_stdout(result, arguments.format or "table", quiet=arguments.quiet)
    if REJECTED in result:
        count = result[REJECTED].count()
        where = f": see {REJECTED} in {arguments.out}" if arguments.out else ""
        _note(
            arguments, f"{count:,} bad {'row was' if count == 1 else 'rows were'} set aside{where}"
        )
    if arguments.stats is not None:
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


def check(arguments: argparse.Namespace) -> int:
    """Compile a program, and say that it is all right; what is not is raised."""
    program = inputs.programs(arguments.program, arguments.language)
    with connect("reference") as db:
        add_data(db, program, arguments)
        warnings = db.check(program, parameters(arguments))
    for warning in warnings:
        print(warning, file=sys.stderr)
    name = " ".join(arguments.program)
    if not isinstance(program, Program):
        count = len(program.statements)
        print(f"{name}: ok, {count} {'statement' if count == 1 else 'statements'}")
        return 0
    rules = f"{len(program.rules)} {'rule' if len(program.rules) == 1 else 'rules'}"
    goals = f"{len(program.goals)} {'goal' if len(program.goals) == 1 else 'goals'}"
    print(f"{name}: ok, {rules}, {goals}")
    return 0
