"""`caladan explain`: the stages of a compilation; `caladan check`: the mistakes of a program.

Spark is started only for its own plans. Without it, data is read in this process, to
decide what sizes decide.
"""

from __future__ import annotations

import argparse
import sys

from caladan.cli.facts import add_data, options, parameters
from caladan.program import Program
from caladan.session import inputs
from caladan.session.session import connect


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
