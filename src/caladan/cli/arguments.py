"""What can be typed. Commands are imported when they are called, so that --help is quick."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any, Final, NoReturn

from caladan import __version__
from caladan.program.options import GRADE_ALIASES, GRADES, STRATEGIES

STAGES: Final = (
    "all", "relations", "rules", "pcg", "operators", "logical", "analyzed", "optimized", "delta",
    "plan", "spark", "sql", "aggregates",
)  # fmt: skip

ENGINES: Final = ("spark", "embedded", "reference")
LANGUAGES: Final = ("deals", "souffle", "rasql")

_EPILOG: Final = """\
exit codes: 0 done, 1 the program or its data is wrong, 2 wrong usage, 3 a limit was hit,
130 interrupted
"""


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line as a namespace; `command` is the function to call with it.

    C050 for what cannot be parsed. Without any argument, prints the help and exits.
    """
    parser = _parser()
    given = sys.argv[1:] if argv is None else argv
    if not given:
        parser.print_help()
        parser.exit()
    arguments, rest = parser.parse_known_args(given)
    for each in sorted(rest, key=lambda each: not each.startswith("-")):
        flag = each.partition("=")[0]
        if not flag.startswith("-"):
            arguments.parser.error(f"unexpected argument `{each}`")
        arguments.parser.error(f"there is no option `{flag}`{arguments.parser.near(flag)}")
    return arguments


class _Parser(argparse.ArgumentParser):
    """Reports a mistake as a diagnostic of one line, without the secrets in a URL."""

    def error(self, message: str) -> NoReturn:
        from caladan.data.secrets import without_urls
        from caladan.program.diagnostics import error

        told = re.sub(r"^argument (\S+): ", r"\1: ", without_urls(message))
        raise error("C050", f"{told} (`{self.prog} --help` lists the options)")

    def near(self, flag: str) -> str:
        """The option whose name is nearest to a flag, as a question; empty if none is near."""
        return _near(flag, self._option_string_actions)


def _near(name: str, known: Iterable[str]) -> str:
    from caladan.program.diagnostics import did_you_mean

    found = did_you_mean(name, known)
    return f"; {found}" if found else ""


def _one_of(known: Sequence[str]) -> dict[str, Any]:
    """The arguments of an option that takes one of some names, which its help lists."""

    def parse(text: str) -> str:
        if text not in known:
            names = ", ".join(known)
            raise argparse.ArgumentTypeError(f"{text!r} is none of {names}{_near(text, known)}")
        return text

    return {"type": parse, "metavar": f"{{{','.join(known)}}}"}


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="caladan",
        description="Datalog for Python that runs on Spark.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"caladan {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_run(_command(commands, "run", "run", "run a program over data"))
    _add_explain(
        _command(
            commands,
            "explain",
            "run",
            "print every stage of the compiler",
        )
    )
    _add_program(_command(commands, "check", "run", "report errors and warnings without running"))
    _add_test(_command(commands, "test", "test", "check the expectations in programs"))
    _command(commands, "warmup", _warmup, "compile the kernels, so that no run has to")
    _add_repl(_command(commands, "repl", "repl", "facts, rules and goals at a prompt"))
    bench = _command(commands, "bench", _later("bench"), "run the benchmarks (not available yet)")
    bench.add_argument("names", nargs="*", metavar="NAME")
    return parser


def _command(
    commands: Any,
    name: str,
    function: Callable[[argparse.Namespace], int] | str,
    summary: str,
) -> argparse.ArgumentParser:
    """A command; where its function is that of a module, this is imported when it is called."""

    def imported(arguments: argparse.Namespace) -> int:
        return getattr(import_module(f"caladan.cli.{function}"), name)(arguments)

    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=summary, allow_abbrev=False
    )
    parser.set_defaults(command=imported if isinstance(function, str) else function, parser=parser)
    parser.add_argument("--debug", action="store_true", help="show stack traces")
    return parser


def _add_program(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "program", nargs="+", metavar="PROGRAM",
        help="files that form one program; - for stdin",
    )  # fmt: skip
    parser.add_argument(
        "--language", **_one_of(LANGUAGES), help="the language of the program; detected by default"
    )
    _add_data(parser)


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data", action="append", default=[], type=_data, metavar="NAME=PATH",
        help="the data of a relation: a csv, tsv, facts, json, parquet or orc file, a folder or a "
        "pattern; on spark also jdbc:URL#TABLE and table:NAME",
    )  # fmt: skip
    parser.add_argument(
        "--facts",
        metavar="DIR",
        help="a folder with one file per relation: NAME.csv, NAME.parquet …",
    )
    parser.add_argument(
        "--header", action=argparse.BooleanOptionalAction,
        help="csv and tsv files have a header line, or none; by default a first line is a header "
        "if it is exactly the declared column names",
    )  # fmt: skip
    parser.add_argument(
        "--header-of", action="append", default=[], metavar="NAME",
        help="the files of this relation have a header",
    )  # fmt: skip
    parser.add_argument(
        "--no-header-of", action="append", default=[], metavar="NAME",
        help="the files of this relation have no header",
    )  # fmt: skip
    parser.add_argument(
        "--delimiter", type=_delimiter, metavar="C",
        help="the column separator of csv and tsv files, such as ';' or '\\t'",
    )  # fmt: skip
    parser.add_argument(
        "--param", action="append", default=[], type=_pair, metavar="K=V",
        help="the value of a parameter; quote a text that looks like a number",
    )  # fmt: skip


def _add_run(parser: argparse.ArgumentParser) -> None:
    _add_program(parser)
    parser.add_argument(
        "--engine", default="auto", **_one_of(("auto", *ENGINES)),
        help="auto (default): embedded, unless --master, --conf, an option of Spark or the data "
        "requires Spark",
    )  # fmt: skip
    parser.add_argument("--master", metavar="URL", help="the Spark master; local[*] by default")
    parser.add_argument(
        "--conf", action="append", default=[], type=_pair, metavar="K=V", help="a Spark setting"
    )
    parser.add_argument(
        "--query", action="append", default=[], metavar="GOAL",
        help="a goal to ask instead of the program's own queries, such as 'tc(1, X)'",
    )  # fmt: skip
    parser.add_argument(
        "--out", metavar="PATH",
        help="write the answers to files in this folder; a name such as tc.csv is one file",
    )  # fmt: skip
    parser.add_argument(
        "--format", **_one_of(("table", "csv", "tsv", "json", "jsonl", "parquet")),
        help="how to print (all but parquet) or write (all but table); default: table, or csv with "
        "--out",
    )  # fmt: skip
    parser.add_argument(
        "--stats", metavar="FILE.json", help="write rounds, facts and seconds by clique and rule"
    )
    _add_limits(parser)
    _add_ways(parser)
    parser.add_argument(
        "--checkpoint", metavar="DIR",
        help="save the state of recursion on Spark here; the same run resumes from it",
    )  # fmt: skip
    rows = parser.add_mutually_exclusive_group()
    rows.add_argument("--permissive", action="store_true", help="set bad rows aside and go on")
    rows.add_argument(
        "--strict", dest="permissive", action="store_false", help="bad rows are errors (default)"
    )
    parser.add_argument("--quiet", action="store_true", help="print only the answer")


def _add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--max-rounds", type=int, metavar="N", help="stop after this many rounds")
    parser.add_argument("--max-facts", type=int, metavar="N", help="stop after this many facts")
    parser.add_argument("--timeout", type=float, metavar="S", help="stop after this many seconds")


def _add_ways(parser: argparse.ArgumentParser) -> None:
    """The options that plans depend on."""
    parser.add_argument(
        "--memory", metavar="SIZE",
        help="embedded: memory for relations, such as 500m or 4g; more goes to disk",
    )  # fmt: skip
    parser.add_argument("--strategy", **_one_of(STRATEGIES), help="force a strategy of Spark")
    parser.add_argument(
        "--partitions", type=int, metavar="N",
        help="partitions that strategy frame makes, whatever there is to do",
    )  # fmt: skip
    parser.add_argument(
        "--search", **_one_of((*GRADES, *GRADE_ALIASES)),
        help="use the guided search for cyclic bodies, with this grade of estimate",
    )  # fmt: skip


def _add_test(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", nargs="*", default=["."], metavar="PATH",
        help="files, or folders with .dl files (default: the working directory); - for stdin",
    )  # fmt: skip
    _add_in_process(parser)
    parser.add_argument("--quiet", action="store_true", help="print only what failed")


def _add_repl(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("program", nargs="*", metavar="PROGRAM", help="files to load first")
    _add_in_process(parser)
    parser.add_argument("--quiet", action="store_true", help="print answers without their counts")


def _add_in_process(parser: argparse.ArgumentParser) -> None:
    """The options of commands that run small programs, by default in this process."""
    _add_data(parser)
    parser.add_argument(
        "--engine", default="embedded", **_one_of(ENGINES), help="default: embedded",
    )  # fmt: skip
    _add_limits(parser)
    _add_ways(parser)


def _add_explain(parser: argparse.ArgumentParser) -> None:
    _add_program(parser)
    parser.add_argument(
        "--stage", default="all", metavar="STAGE",
        help=f"one of {', '.join(STAGES)}; the last two are for SQL",
    )  # fmt: skip
    parser.add_argument(
        "--engine", default="spark", **_one_of(ENGINES),
        help="the engine whose physical plan is printed (default: spark); with data, the plan has "
        "the decisions that depend on it",
    )  # fmt: skip
    parser.add_argument("--master", metavar="URL", help="the Spark master; local[*] if not given")
    _add_ways(parser)
    parser.add_argument("--html", metavar="FILE", help="write all stages to an HTML page")


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:  # it may hold a secret: it is not told
        raise argparse.ArgumentTypeError("it is not of the form NAME=VALUE")
    return name, value


def _delimiter(text: str) -> str:
    text = "\t" if text == r"\t" else text
    if len(text) != 1:
        raise argparse.ArgumentTypeError(f"it must be one character, not {text!r}")
    return text


def _data(text: str) -> tuple[str, str]:
    from caladan.data.external import is_url

    if is_url(text):
        raise argparse.ArgumentTypeError("name the relation: NAME=jdbc:URL#TABLE")
    return _pair(text)


def _warmup(_: argparse.Namespace) -> int:
    import compileall
    from importlib.util import find_spec

    import caladan
    from caladan.columns.warmup import warmup

    print(f"{len(warmup())} modules of kernels are ready")
    if find_spec("pyspark") is not None:
        from caladan.engines.spark.session.archive import make

        print(
            "Spark's classes are ready" if make() else "Spark starts without an archive of classes"
        )
    # pip has done this for an installed package, nobody for one that is used from its sources.
    for folder in caladan.__path__:
        compileall.compile_dir(folder, quiet=2)
    return 0


def _later(name: str) -> Callable[[argparse.Namespace], NoReturn]:
    def say_so(_: argparse.Namespace) -> NoReturn:
        from caladan.program.diagnostics import error

        raise error("C051", f"`caladan {name}` is not available yet")

    return say_so
