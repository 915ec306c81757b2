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

A diagnostic names the place, a code and the problem, marks the source line, and often points to a
second place and says what to do. Caladan reports all errors of a program together: syntax first,
then names and numbers of columns, then everything else. Warnings (W…) do not stop a run.

In Python an error raises `caladan.CaladanError`, which has all `.diagnostics`. A run that hits a
limit raises `caladan.Stopped`, whose `.result` has the facts derived so far. The command line
prints diagnostics to stderr and exits with 1 (wrong program or data), 2 (wrong usage), 3 (a limit)
or 130 (interrupted). `--debug` shows stack traces.

This page is generated from the table of codes and shows real output.
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
    "C09": "Bugs",
    "W10": "Warnings",
    "W11": "Warnings",
}

PROSE = {
    "C070": "Two facts of a collection have the same key and differ in the other columns. Add "
    "the columns that may differ to the key, use `<<=` to replace the fact at the next "
    "tick, or use a lattice, which merges.",
    "C071": "Inputs, channels and timers receive facts from outside, outputs and scratches from "
    "rules. Only tables lose facts. Only channels, loopbacks and stdio send.",
    "C072": "Outputs are for readers outside the module. Rules read the collections that an "
    "output is derived from.",
    "C073": 'A function has no value for its arguments, as in `cast("abc", long)`; or a Python '
    "function raised an exception or returned a value of another type; or a comparison "
    "in a Bloom rule failed. The message shows the reason.",
    "C074": "`@next`, `@delete`, `@upsert` and `@async` need a program that runs in ticks: see "
    "[Bloom](bloom.md).",
    "C001": "The message says what the parser expected. If you wrote the notation of another "
    "dialect, the help line shows the DeALS form.",
    "C002": "A quoted text ends on the line it began; a comment `/*` needs `*/`.",
    "C003": "Integers have 64 bits.",
    "C004": "See [types](types.md).",
    "C005": "Caladan detects the language from the text; `language=` or `--language` overrides.",
    "C010": "The relation is not declared, has no data, and no rule has it as head.",
    "C011": "A relation has the same number of columns everywhere.",
    "C012": "A variable has two types without a common value. The message shows both places.",
    "C013": "A positive atom or an equality must bind every variable of the head, of a negated "
    "atom and of a comparison.",
    "C014": "A relation depends on its own negation, or on an aggregate of itself. The message "
    "shows the cycle. For values that improve, use `mmin` or `mmax`; for sums, `msum` "
    "or `mcount`.",
    "C015": "A head has aggregates and group columns. A group column is a plain value.",
    "C016": "All rules of a relation must combine a column in the same way.",
    "C017": "A name can be declared once.",
    "C018": "The type of the column does not include the constant.",
    "C020": "A parameter without a value, or a value without a parameter.",
    "C021": "The relation of the goal has neither rules nor data.",
    "C022": "`sort` and `limit` apply to the solutions of a whole rule, once each.",
    "C023": "A goal has variables, constants and parameters. Compute in a rule.",
    "C024": "Caladan expands `if` literals and disjunctions that read relations into rules, one "
    "per combination, and this rule has too many. Those that only compare are not "
    "expanded.",
    "C025": "A missing value equals nothing, not even another missing value. Test for it with "
    "`missing(X)` and `present(X)`.",
    "C026": "`tx[R](…)` numbers the rows of data. A derived relation has facts, each once.",
    "C030": "The file or folder does not exist, or the pattern matches nothing.",
    "C031": "A row has too few or too many columns (`--permissive` sets such rows aside), or "
    "named columns do not match those of the relation.",
    "C032": "The value does not have the type of its column, or is out of range.",
    "C033": "Programs and text files must be UTF-8.",
    "C034": "A goal, or a relation that you read, needs a declared relation without data. An "
    "empty file counts as data.",
    "C035": "The format is unknown, the file is not what its suffix says, the path matches "
    "files of several formats, or Caladan cannot tell whether the first line is a "
    "header.",
    "C036": "A column declared with `!`, such as `long!`, lacks a value, or a JSON object has "
    "none of the names. Other columns may [lack values](missing.md).",
    "C037": "The output cannot be written there.",
    "C040": "The message names the rule. A comparison next to the division, such as `B ~= 0`, "
    "excludes the case.",
    "C041": "Integers have 64 bits and do not wrap around. Doubles do not become infinity, "
    "unless data contains it. The message names the rule.",
    "C042": "`max_rounds`, `max_facts`, `memory` or `timeout` ended the run, or the sums of a "
    "recursion do not converge. The facts derived so far can be read.",
    "C043": "Ctrl-C, or a cancelled notebook cell. The facts derived so far can be read. Also "
    "raised by a call that waits for a Bloom instance when `stop()` ends it.",
    "C044": "Spark failed: an executor was lost, a disk is full. The message has Spark's reason "
    "in one line; `--debug` shows the rest, and in Python it is the cause of the "
    "exception.",
    "C045": "Spark needs Java 17 or newer: set JAVA_HOME, or install `caladan[java]`.",
    "C046": "`caladan test` found other facts than the program expects: `-` marks missing "
    "facts, `+` unexpected ones.",
    "C047": "A rule added to a sum within its recursion under a condition that later failed, "
    "because the values it compares, joins or groups by changed. Facts that follow from "
    "the sum may have caused the change, so there is no answer. Values that change "
    "without affecting the condition are fine.",
    "C050": "An argument is wrong. The message says which, and lists what is valid.",
    "C051": "The feature is planned but not part of this version.",
    "C060": "A recursive view supports joins, comparisons, arithmetic and the aggregates of its "
    "head. The message names what it does not support.",
    "C062": "A SQL engine runs the parts that are not recursive. The message is its error.",
    "C063": "No table of the query has the column, or several have it.",
    "C064": "Recursion has no NULL: filter it out, or replace it with `coalesce`.",
    "C065": "Relations have no such type.",
    "C090": "A bug in Caladan. Please report it with the output of `--debug`.",
    "W101": "A recursive rule computes new values and may not terminate. Limits stop such a "
    "run: `--max-rounds`, `--max-facts`, `--timeout`.",
    "W102": "A condition tests a value that the recursion still improves. Facts derived from an "
    "earlier value stay when a better one arrives.",
    "W103": "Every rule of the relation depends on the relation itself.",
    "W105": "A variable that occurs once neither joins nor tests. It is often a typo; write `_` "
    "for any value. Names that begin with `_` are exempt.",
    "W106": "A word with a capital letter is a variable. The program has the same word as a "
    "text elsewhere, so the quotes may be missing.",
    "W107": "`run` and `check` warn about rules that no goal needs. A session does not, because "
    "`db.query` may ask later.",
    "W108": "A permissive run skips rows that it cannot read.",
    "W109": "Relations are sets. `tx[R](…)` ranges over the rows of data instead: see "
    "[rows](missing.md#rows).",
    "W110": "The first line of a text file without declared columns looks like column names.",
    "W104": "The aggregate in the head of a recursive view applies at every step of the "
    "recursion, not once at the end.",
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
