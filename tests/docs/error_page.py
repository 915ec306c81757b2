"""docs/reference/errors.md, made from the table of codes and the cases in tests/errors.

`python -m tests.docs.error_page` writes the page anew; a test compares.
"""

import io
import os
import tempfile
import textwrap
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from tests.errors.cases import CASES, Case
from tests.errors.test_errors import command, place

from caladan.cli import main
from caladan.program.diagnostics import CODES

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "errors.md"

INTRODUCTION = """\
# Errors and warnings

A mistake in a program or its data is told by a diagnostic: the place, a code, what is wrong, the
line with a mark under it, a second place where that helps, and a line that says what to do.
Mistakes are told together: those of the text first, then names and numbers of columns, then
everything else. Warnings (W…) do not stop a run.

In Python a diagnostic arrives as `caladan.CaladanError`, with all of them in `.diagnostics`; a run
that met a limit raises `caladan.Stopped`, whose `.result` has what was derived until then. The
command line prints diagnostics on stderr and ends with exit code 1 (wrong program or data),
2 (wrong usage), 3 (a limit) or 130 (interrupted). Stack traces are shown with `--debug` only.

This page is made from the codes themselves: every text below is what is really printed.
"""

SECTIONS = {
    "C00": "The text of a program",
    "C01": "The meaning of a program",
    "C02": "The meaning of a program",
    "C03": "Data",
    "C04": "Running",
    "C05": "Usage",
    "C06": "SQL",
    "C07": "Ticks",
    "C09": "Our mistakes",
    "W10": "Warnings",
    "W11": "Warnings",
}

PROSE = {
    "C070": "Two facts of a collection differ, and have the same key. Columns that may differ "
    "belong to the key; `<<=` replaces the fact of a key at the next tick; lattices merge.",
    "C071": "Inputs, channels and timers get their facts from outside, outputs and scratches from "
    "rules; only tables lose facts, and only channels, loopbacks and stdio are sent to.",
    "C072": "An output is for those outside; rules read what it is derived from.",
    "C073": 'A function has no value for what a rule calls it with, as `cast("abc", long)`; or a '
    "Python function raised an exception, or gave a value of another type than was said; or a "
    "comparison of a Bloom rule did. What happened is shown.",
    "C074": "`@next`, `@delete`, `@upsert` and `@async` are for programs that run in ticks, see "
    "[Bloom](bloom.md).",
    "C001": "The text cannot be read. The message says what was expected; where a slip from "
    "another dialect is likely, the help line names the DeALS way.",
    "C002": "A quoted text ends on its line; a comment `/*` needs its `*/`.",
    "C003": "Whole numbers have 64 bits.",
    "C004": "The types are byte, short, integer, long, float, double, string, boolean, datetime.",
    "C005": "The dialect is found out from the text; `language=` or `--language` says it outright.",
    "C010": "Neither declared, nor given data, nor the head of a rule.",
    "C011": "A relation has the same number of columns everywhere.",
    "C012": "One variable, two types that have no value in common. Both places are shown.",
    "C013": "A variable of the head, of a negated atom or of a comparison that no positive atom "
    "and no equality binds.",
    "C014": "A relation depends on its own negation, or on an aggregate of itself. The cycle is "
    "drawn. For values that improve, use `mmin` or `mmax`; for sums, `msum` or `mcount`.",
    "C015": "Beside aggregates a head has group columns: plain values, one set for each group.",
    "C016": "All rules of a relation must combine a column in the same way.",
    "C017": "One declaration for each name.",
    "C018": "A constant that its column could never hold.",
    "C020": "A parameter without a value, or a value without a parameter.",
    "C021": "A goal asks for a relation that has neither rules nor data.",
    "C022": "`sort` and `limit` cut the solutions of a whole rule, once each.",
    "C023": "A goal holds variables, constants and parameters; computing is for rules.",
    "C024": "Every way through the `if` literals and disjunctions of a rule that read relations is "
    "a rule of its own, and this rule has too many of them. Those that only compare cost none.",
    "C025": "Nothing is equal to a missing value, not even another one; `missing(X)` and "
    "`present(X)` tell whether there is a value.",
    "C026": "`tx[R](…)` numbers rows of data. Relations of rules have facts, each once.",
    "C030": "A file, folder or pattern that matches nothing.",
    "C031": "A row with too few or too many columns; `--permissive` sets such rows aside. Or named "
    "columns that are not those of the relation, or of which two have the name that decides.",
    "C032": "A value that is not of its column's type, or out of its range.",
    "C033": "Text files are read as UTF-8, and programs are text.",
    "C034": "A declared relation without data that a goal, or a relation that is asked for, needs. "
    "An empty file is data.",
    "C035": "A format that is not known, a file that is not what its name says, files of several "
    "kinds behind one path, or a first line of which nobody can tell whether it is a header.",
    "C036": "A column that is declared with `!`, such as `long!`, lacks a value, or a row of JSON "
    "has none of the names. Other columns may lack values: see [missing values](missing.md).",
    "C037": "The output cannot be written where it was asked for.",
    "C040": "The message names the rule. A comparison beside the division, such as `B ~= 0`, keeps "
    "it from being evaluated.",
    "C041": "Whole numbers have 64 bits and never wrap around; doubles never become infinity, "
    "unless data has it. The message names the rule.",
    "C042": "`max_rounds`, `max_facts` or `timeout` ended the run, or sums of a recursion that "
    "would never settle; what was derived so far is still handed out.",
    "C043": "Ctrl-C, or a cancelled cell of a notebook. What was derived so far is still handed "
    "out. Also a call that waited for a Bloom instance when `stop()` ended it.",
    "C044": "Spark itself failed: an executor was lost, a disk is full. The message has Spark's "
    "reason in one line; `--debug` shows all of it, and in Python it is the cause of the "
    "exception.",
    "C045": "Spark needs Java 17 or newer: set JAVA_HOME, or install `caladan[java]`.",
    "C046": "`caladan test` found other facts than a program expects: `-` is before those that are "
    "missing, `+` before those that are there and should not be.",
    "C047": "A rule adds to a sum of its own recursion only where a condition holds, and what it "
    "added holds no more: the values it compares, joins or groups by have changed since. What "
    "followed from it may be what changed them, so there is no answer. Values that only change in "
    "a way that keeps the condition true are no problem.",
    "C050": "An argument that makes no sense: the message says which, and what would.",
    "C051": "Known, but not part of this version.",
    "C060": "A recursive view may use joins, comparisons, arithmetic and the aggregates of its "
    "head; the message names what it may not use.",
    "C062": "What is not recursive is handed to a SQL engine as it is; this is what it said.",
    "C063": "A column that no table of the query has, or that several have.",
    "C064": "Recursion has no NULL: filter it out, or put a value in its place with `coalesce`.",
    "C065": "A type of a table that has no counterpart among the types of relations.",
    "C090": "A mistake of ours. Please report it with the output of `--debug`.",
    "W101": "A recursive rule computes new values, so it may go on for ever. A limit ends such a "
    "run: `--max-rounds`, `--max-facts`, `--timeout`.",
    "W102": "A condition on a value that recursion still improves: what follows from the first "
    "value is not taken back when a better one arrives.",
    "W103": "The relation depends on itself and nothing starts it off.",
    "W105": "A variable that a rule has once binds nothing and tests nothing: a slip, or "
    "a value that may be anything, which is written `_`. Names that begin with `_` are exempt.",
    "W106": "A word with a capital letter is a variable. Where the program has the same word as a "
    "text, the quotes are probably missing.",
    "W107": "The commands `run` and `check` warn of rules that nothing asks for. A session does "
    "not: `db.query` may ask later.",
    "W108": "A permissive run leaves out rows that it cannot read.",
    "W109": "Relations are sets. `tx[R](…)` ranges over the rows of data instead: see "
    "[rows](missing.md#rows).",
    "W110": "A text file without a declaration of its columns, whose first line reads like names.",
    "W104": "An aggregate in the head of a recursive view is applied at every step of the "
    "recursion, not once at its end.",
}


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    section = ""
    for code, title in CODES.items():
        found = SECTIONS[code[:3]]
        if found != section:
            section = found
            parts.append(f"## {section}\n")
        parts.append(f"### {code}: {title}\n\n{textwrap.fill(PROSE[code], 100)}\n")
        case = next((c for c in CASES if c.code == code), None)
        if case is not None:
            parts.append(f"```\n{_told(case)}\n```\n")
    return "\n".join(parts)


def _told(case: Case) -> str:
    """What the command line says of a case."""
    before = Path.cwd()
    out = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        place(case, Path(folder))
        os.chdir(folder)
        try:
            with redirect_stderr(out), redirect_stdout(io.StringIO()):
                main(command(case, "reference"))
        except SystemExit:  # argparse ends the process for usage it does not know
            pass
        finally:
            os.chdir(before)
    return out.getvalue().strip()


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
