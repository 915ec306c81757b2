"""Random programs on every engine, for as long as you like: `make fuzz MINUTES=10`.

    make fuzz MINUTES=10                            into build/fuzz
    make fuzz MINUTES=60 ARGS="--out /tmp/fuzz"     into another folder
    make fuzz MINUTES=60 ARGS="--spark"             now and then on Spark too, strategy by strategy

A case is a program with its facts (tests/strategies), thresholds, a number of threads and a grade
of search. Some programs make more facts than anyone waits for, and must stop at their limits. Of
the others, one in six goes through the tasks of *meshed*, side by side in this process, and one in
six is watched while facts come and go. The reference engine says what must come out; where facts
are too many for it, the embedded engine with its plainest thresholds. Facts are looked at wherever
some are added (CALADAN_CHECK). A case that fails is made smaller, and written as a folder that
tests/programs can take as it is: program, facts, what must come out, in `[replay]` of meta.toml
what made it fail, and in changes.json how the facts came to be what they are.
Ends with 1 if there was one.
"""

import argparse
import csv
import json
import os
import shutil
import sys
import time
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

os.environ.setdefault("CALADAN_CHECK", "1")  # before the package is loaded

from hypothesis import HealthCheck, Phase, given, reject, seed, settings, strategies as st
from hypothesis.errors import UnsatisfiedAssumption
from tests.programs.answers import Changes, Step, follow
from tests.programs.compare import difference
from tests.spark.mesh.engine import SPLITTING, PartsEngine
from tests.strategies.extremes import extremes
from tests.strategies.mixed_programs import mixed_programs
from tests.strategies.random_programs import Facts, free, random_programs
from tests.strategies.random_thresholds import NEVER, random_thresholds
from tests.strategies.recursions import recursions
from tests.strategies.written_programs import (
    Limits,
    random_limits,
    unbounded_products,
    written_programs,
)

import caladan
from caladan.join.estimates import GRADES
from caladan.language import parse
from caladan.language.deals import unparse
from caladan.program import thresholds
from caladan.program.thresholds import Thresholds
from caladan.program.values import write_value
from caladan.session.session import Session

ROOT = Path(__file__).parent.parent
STRATEGIES = ("single", "pivoted", "meshed", "frame")
PLAIN = Thresholds(shape=NEVER, small_rounds=NEVER, key_bits=0, grouping=NEVER, selective=NEVER)
"""Facts by rows, whole columns, round by round: the plainest path of the embedded engine."""

SPARK = {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "2"}
AT_ONCE = 100  # cases between two lines about how far we are
FEW = 4  # of them on Spark
PATIENCE = 60  # seconds for a run, after which it counts as one that does not end
SPARK_PATIENCE = 400  # the same for Spark, whose processes may get little of a busy machine
SHRINKING = 90  # seconds for making a case smaller
REFERENCE = 5  # seconds for the reference engine, after which a case is let go
ARITHMETIC = {"C040", "C041"}  # codes of what a program may do to its numbers
LATE = 10  # seconds of CPU time, on all cores, that a run may take past its limit


@dataclass(frozen=True)
class Case:
    """A program with its facts, and how it is to be run."""

    text: str
    facts: Facts
    chosen: Thresholds
    threads: int = 2
    search: str | None = None
    strategy: str | None = None
    tasks: int | None = None
    splitting: str | None = None
    large: bool = False
    changes: Changes | None = None
    """How the facts came to be what they are, while the program was watched."""
    limits: Limits | None = None
    """Of a program that makes more facts than anyone waits for: it has to stop at them."""

    @property
    def asked(self) -> dict[str, Any]:
        """What is not as it always is, as meta.toml has it."""
        names = ("threads", "search", "strategy", "tasks", "splitting")
        known = {name: getattr(self, name) for name in names} | (self.limits or {})
        return {name: value for name, value in known.items() if value is not None}


@dataclass
class Answered:
    """What a run answered: for each goal its types and rows, and the codes of warnings."""

    answers: list[tuple[tuple[str, ...], list[tuple[Any, ...]]]]
    warned: list[str] = field(default_factory=list)


class WrongAnswerError(Exception):
    """Two engines do not agree."""


class Enough(KeyboardInterrupt):
    """A case is small enough. Of all exceptions, hypothesis lets only this kind through."""


KINDS = (
    "random", "recursive", "recursive", "large", "mixed", "mixed", "extremes", "extremes",
    "written", "written", "written", "product",
)  # fmt: skip


@st.composite
def cases(draw: st.DrawFn, kinds: Sequence[str] = KINDS) -> Case:
    """Programs small enough for the reference engine; now and then a larger one."""
    kind = draw(st.sampled_from(kinds))
    limits: Limits | None = None
    if kind == "mixed":
        mixed = draw(mixed_programs())
        text, facts = mixed.text, mixed.facts
    elif kind == "written":
        written = draw(written_programs())
        text, facts = written.text, written.facts
    elif kind == "product":
        product = draw(unbounded_products())
        text, facts, limits = product.text, product.facts, draw(random_limits())
    elif kind == "random":
        made = draw(random_programs(layers=6))
        text, facts = unparse(made.program), made.facts
    elif kind == "extremes":
        found = draw(extremes(padding=draw(st.sampled_from([0, 0, 1200]))))[0]
        text, facts = found.text, found.facts
    else:
        found = draw(recursions(most=60, least=10) if kind == "large" else recursions())
        text, facts = found.text, found.facts
    threads = draw(st.sampled_from([1, 2]))
    search = draw(st.sampled_from([None, None, *GRADES]))
    chosen = draw(st.one_of(st.just(Thresholds()), random_thresholds(), random_thresholds()))
    case = Case(text, facts, chosen, threads, search, large=kind == "large", limits=limits)
    how = draw(st.integers(0, 5))
    if how > 1 or limits is not None:
        return case
    if how == 1:
        return draw(watched(case))
    splitting = draw(st.sampled_from(sorted(SPLITTING)))
    return replace(case, search=None, tasks=draw(st.sampled_from([2, 3])), splitting=splitting)


@st.composite
def watched(draw: st.DrawFn, case: Case) -> Case:
    """A case whose facts come and go: at each step some of those of one relation.

    Goals bind nothing, for a program is watched whole.
    """
    known = {name: sorted(set(rows)) for name, rows in case.facts.items() if rows}
    if not known:
        return case
    start = {name: list(rows) for name, rows in case.facts.items()}
    for name, rows in known.items():
        gone = draw(st.sets(st.sampled_from(rows), max_size=3))
        start[name] = [row for row in start[name] if row not in gone]
    facts: Facts = {name: list(rows) for name, rows in start.items()}
    steps: list[Step] = []
    for name in draw(st.lists(st.sampled_from(sorted(known)), min_size=1, max_size=6)):
        turned = draw(st.lists(st.sampled_from(known[name]), max_size=3, unique=True))
        less = [row for row in turned if row in facts[name]]
        more = [row for row in turned if row not in facts[name]]
        facts[name] = [row for row in facts[name] if row not in less] + more
        steps.append((name, less, more))
    text = unparse(free(parse(case.text)))
    return replace(case, text=text, facts=facts, search=None, changes=Changes(start, steps))


# ── Running ──────────────────────────────────────────────────────────────────────────────────────


def answered(engine: Any, case: Case, seconds: float) -> Answered:
    """What an engine answers; with tasks, what parts of *meshed* do that meet in this process."""
    if case.tasks is not None and case.splitting is not None and engine == "embedded":
        db = Session(PartsEngine(case.tasks, splitting=SPLITTING[case.splitting]))
    else:
        db = caladan.connect(engine)
    if case.changes is None or engine != "embedded":
        for name, rows in case.facts.items():
            db.add(name, rows)
    options: dict[str, Any] = {"timeout": seconds}
    if engine != "reference":
        options |= {"search": case.search, "strategy": case.strategy}
    threads = patch.dict(os.environ, {"CALADAN_THREADS": str(case.threads)})
    with warnings.catch_warnings(), threads, thresholds.override(case.chosen):
        warnings.simplefilter("ignore", caladan.CaladanWarning)
        if case.changes is not None and engine == "embedded":
            live = follow(db, case.text, case.changes)
            goals = [live[goal.atom.relation] for goal in parse(case.text).goals]
            return Answered([(tuple(each.types), each.rows()) for each in goals])
        out = db.run(case.text, **options)
        found = [(tuple(answer.types), answer.rows()) for answer in out.answers]
    return Answered(found, [warning.code for warning in out.warnings])


def wanted(case: Case) -> Answered:
    """What must come out; a case that takes too long to say is let go."""
    try:
        if case.large:
            return answered(
                "embedded",
                replace(case, chosen=PLAIN, search=None, tasks=None, changes=None),
                PATIENCE,
            )
        return answered("reference", case, REFERENCE)
    except caladan.CaladanError:
        reject()


def check(engine: Any, case: Case, right: Answered) -> None:
    """Run a case; fail unless it answers what is right."""
    started = time.process_time()
    try:
        got = answered(engine, case, PATIENCE if engine == "embedded" else SPARK_PATIENCE)
    except caladan.Stopped:
        if engine == "embedded" and time.process_time() - started < PATIENCE / 2:
            reject()  # others had the machine
        raise
    for number, (one, other) in enumerate(zip(got.answers, right.answers, strict=True), 1):
        if one[0] != other[0]:
            raise WrongAnswerError(f"goal {number}: types {one[0]} for {other[0]}")
        if (different := difference(one[1], other[1])) is not None:
            raise WrongAnswerError(f"goal {number}: {different}")


def check_stops(case: Case) -> None:
    """Run a case that makes too many facts; fail unless it stops soon after its limit."""
    assert case.limits is not None
    db = caladan.connect("embedded")
    for name, rows in case.facts.items():
        db.add(name, rows)
    started = time.process_time()
    with warnings.catch_warnings(), thresholds.override(case.chosen):
        warnings.simplefilter("ignore", caladan.CaladanWarning)
        try:
            out = db.run(case.text, search=case.search, **case.limits)
            for answer in out.answers:
                answer.count()
        except caladan.Stopped:
            pass
        except caladan.CaladanError as problem:
            if not {each.code for each in problem.diagnostics} <= ARITHMETIC:
                raise
    took = time.process_time() - started
    if took > case.limits.get("timeout", 0) + LATE:
        raise WrongAnswerError(f"took {took:.1f} s of CPU time with {case.limits}")


# ── What failed ──────────────────────────────────────────────────────────────────────────────────


def write(folder: Path, case: Case, expected: Answered, why: str) -> None:
    """A case as a folder of tests/programs."""
    from tests.programs.corpus import Folder

    for part in ("facts", "expected"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "program.dl").write_text(case.text, encoding="utf-8")
    for name, rows in case.facts.items():
        _write_rows(folder / "facts" / f"{name}.csv", rows)
    if case.changes is not None:
        changes = json.dumps({"start": case.changes.start, "steps": case.changes.steps})
        (folder / "changes.json").write_text(changes + "\n", encoding="utf-8")
    lines = [f"description = {_quoted(why)}"]
    if expected.warned:
        lines.append(f"warnings = [{', '.join(map(_quoted, expected.warned))}]")
    lines += ["", "[replay]", *(f"{name} = {_quoted(v)}" for name, v in case.asked.items())]
    lines += ["", "[replay.thresholds]"]
    # Kernels are loaded here by now, which decides who takes small rounds: so they are there.
    chosen = {"small_rounds_cold": 0, **case.chosen.changes()}
    lines += [f"{name} = {value}" for name, value in chosen.items()]
    (folder / "meta.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if case.limits is not None:
        return  # what must come out is an end
    for stem, (types, rows) in zip(Folder(folder, {}).queries(), expected.answers, strict=True):
        header = [tuple(types) if types else ("()",)]
        _write_rows(folder / "expected" / f"{stem}.csv", [*header, *(r or ("()",) for r in rows)])


def _write_rows(path: Path, rows: list[tuple[Any, ...]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([[write_value(value) for value in row] for row in rows])


def _quoted(value: object) -> str:
    if isinstance(value, int):
        return str(value)
    text = " ".join(str(value).split()).replace("\\", "\\\\").replace('"', "'")
    return f'"{text[:160]}"'


# ── The loop ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Failure:
    """The smallest case so far that fails as another one did, and until when to look for less."""

    case: Case
    why: str
    folder: Path
    enough: float


@dataclass
class Fuzzing:
    """How far we are."""

    out: Path
    until: float
    shrink: bool = True
    cases: int = 0
    failures: int = 0
    failed: Failure | None = None

    def some(
        self, strategy: st.SearchStrategy[Case], engine: Any, random: Random, most: int
    ) -> None:
        """Try some cases; one that fails is made smaller, and written."""

        def tried(case: Case) -> None:
            known = self.failed
            if known is not None and time.monotonic() > known.enough:
                raise Enough
            if known is None and time.monotonic() > self.until:
                return
            self.cases += 1
            right = Answered([]) if case.limits is not None else wanted(case)
            try:
                check_stops(case) if case.limits is not None else check(engine, case, right)
            except UnsatisfiedAssumption:  # let go of
                raise
            except Exception as problem:
                self.keep(case, right, problem)
                raise

        trying = settings(
            max_examples=most,
            database=None,
            deadline=None,
            phases=[Phase.generate, *([Phase.shrink] if self.shrink else [])],
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
            print_blob=False,
        )
        self.failed = None
        try:
            seed(random.getrandbits(64))(trying(given(strategy)(tried)))()
        except BaseException as ended:  # whatever hypothesis makes of it
            stopped = isinstance(ended, KeyboardInterrupt) and not isinstance(ended, Enough)
            if self.failed is None or stopped:
                raise
            say(f"FAILED: {self.failed.why}\n  {self.failed.folder}")
            self.failures += 1

    def keep(self, case: Case, right: Answered, problem: Exception) -> None:
        """Write what failed, in the place of what is larger."""
        trace = "".join(traceback.format_exception(problem))
        why = trace.strip().splitlines()[-1]
        if self.failed is None:
            folder = self.out / f"fuzz_{time.strftime('%m%d_%H%M%S')}_{self.failures + 1}"
            enough = time.monotonic() + SHRINKING
        else:
            folder, enough = self.failed.folder, self.failed.enough
            shutil.rmtree(folder)
        self.failed = Failure(case, why, folder, enough)
        write(folder, case, right, f"found by fuzzing: {why}")
        (folder / "trace.txt").write_text(trace, encoding="utf-8")


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def fuzz(
    minutes: float, out: Path, number: int, *, spark: bool, most: int, kinds: Sequence[str] = KINDS
) -> int:
    """Try cases for so long; how many failed."""
    random = Random(number)
    state = Fuzzing(out, time.monotonic() + 60 * minutes)
    say(f"seed {number}, {minutes:g} minutes, failures go to {out}")
    session: Any = None
    tasks = Thresholds()
    if spark:
        from caladan.engines.spark.session.session import start

        tasks = drawn(random)
        say(f"Spark's tasks have {tasks.changes()}")
        with patch.dict(os.environ, {thresholds.VARIABLE: spelled(tasks)}):
            session = start(master="local[2]", conf=SPARK)
    while time.monotonic() < state.until and state.failures < most:
        state.some(cases(kinds), "embedded", random, AT_ONCE)
        if session is not None:
            strategy = random.choice(STRATEGIES)
            there = partial(replace, chosen=tasks, strategy=strategy, tasks=None, changes=None)
            on_spark = cases(kinds).filter(lambda case: not case.large).map(there)
            state.some(on_spark, session, random, FEW)
        say(f"{state.cases:,} cases, {state.failures} failed")
    return state.failures


def drawn(random: Random) -> Thresholds:
    """Some thresholds, for those who cannot be told of others later."""
    found: list[Thresholds] = []
    trying = settings(  # the first is {}
        max_examples=20,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),  # a busy machine draws slowly
    )

    def take(chosen: Thresholds) -> None:
        found.append(chosen)

    seed(random.getrandbits(64))(trying(given(random_thresholds())(take)))()
    return found[-1]


def spelled(chosen: Thresholds) -> str:
    """As CALADAN_THRESHOLDS has them."""
    return " ".join(f"{name}={value}" for name, value in chosen.changes().items())


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "fuzz")
    parser.add_argument("--seed", type=int, default=time.time_ns() % (1 << 32))
    parser.add_argument("--spark", action="store_true", help="now and then on Spark too")
    parser.add_argument("--most", type=int, default=5, help="failures after which to stop")
    parser.add_argument("--only", choices=sorted(set(KINDS)), help="programs of one kind")
    asked = parser.parse_args(arguments)
    kinds = KINDS if asked.only is None else (asked.only,)
    failures = fuzz(
        asked.minutes, asked.out, asked.seed, spark=asked.spark, most=asked.most, kinds=kinds
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
