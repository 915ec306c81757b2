"""`caladan explain`: the stages of a compilation. Spark is started only for its own plans.

Without it, data is read in this process, to decide what sizes decide.
"""

from __future__ import annotations

import argparse
import sys

from caladan.cli.facts import add_data, parameters
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
            strategy=arguments.strategy,
        )
    print(text.rstrip())
    if arguments.html is not None:
        print(f"wrote {arguments.html}", file=sys.stderr)
    return 0
