"""`caladan check`: the mistakes of a program, or that there are none."""

from __future__ import annotations

import argparse
import sys

from caladan.cli.facts import add_data, parameters
from caladan.program import Program
from caladan.session import inputs
from caladan.session.session import connect


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
