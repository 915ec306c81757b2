"""`caladan explain`: the stages of a compilation. Spark is started only for its own plans."""

from __future__ import annotations

import argparse
import sys

from caladan import inputs
from caladan.cli.facts import add_data, parameters
from caladan.session import connect


def explain(arguments: argparse.Namespace) -> int:
    """Print a stage, or all of them."""
    program = inputs.programs(arguments.program, arguments.language)
    with connect("spark" if arguments.stage == "spark" else "reference") as db:
        add_data(db, program, arguments)
        text = db.explain(
            program,
            arguments.stage,
            html=arguments.html,
            params=parameters(arguments),
            engine="spark",
        )
    print(text.rstrip())
    if arguments.html is not None:
        print(f"wrote {arguments.html}", file=sys.stderr)
    return 0
