"""The benchmarks: every case can be run, and what comes out is counted, compared and reported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted(path.name for path in (ROOT / "bench" / "programs").iterdir())


def python(script: str) -> str:
    """Run a script from the repository's root, as `python -m bench` is."""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr
    return done.stdout


def test_every_program_compiles() -> None:
    python(
        "from bench.cases import CASES, PROGRAMS\n"
        "from caladan.language import parse\n"
        "from caladan.pipeline import compile_program\n"
        "for case in CASES:\n"
        "    compile_program(parse(case.text('deals.dl')), {}, dict(case.params))\n"
        "assert {c.program for c in CASES} == {p.name for p in PROGRAMS.iterdir()}\n"
    )


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_is_written_for_caladan(program: str) -> None:
    assert (ROOT / "bench" / "programs" / program / "deals.dl").is_file()


def test_generators_are_deterministic() -> None:
    python(
        "from bench.generate import GENERATORS\n"
        "for make in GENERATORS.values():\n"
        "    one, other = make(), make()\n"
        "    assert one.keys() == other.keys() and all(one[n].equals(other[n]) for n in one)\n"
    )


@pytest.mark.parametrize("who", ["embedded", "duckdb", "polars"])
def test_contestants_agree_on_a_small_closure(who: str) -> None:
    out = python(
        "import json\n"
        "from bench.cases import Case\n"
        "from bench.contestants import contestant\n"
        "from bench.data import Made\n"
        "case = Case('t', 'tc', Made('chain', {'length': 40}), {'tc': 820})\n"
        f"run = contestant({who!r})(case, {{'arc': case.data.tables()['arc']}}, 1)\n"
        "print(json.dumps(run().to_dict()))\n"
    )
    assert json.loads(out)["counts"] == {"tc": 820}


def test_the_report_has_ratios_and_shows_what_is_wrong() -> None:
    out = python(
        "from bench.cases import Case\n"
        "from bench.data import Made\n"
        "from bench.report import Outcome, disagreements, markdown\n"
        "def report(count, cpu):\n"
        "    return {'counts': {'tc': count}, 'cpu': cpu, 'wall': cpu, 'peak': 2**20,\n"
        "            'evaluation': None, 'detail': ''}\n"
        "case = Case('c', 'tc', Made('chain'), {'tc': None})\n"
        "outcomes = [Outcome(case, 'embedded', report(5, 0.5)),\n"
        "            Outcome(case, 'duckdb', report(6, 2.0)),\n"
        "            Outcome(case, 'polars', {'seconds': 60.0}, '> 60 s')]\n"
        "print(markdown(outcomes, 1))\n"
        "print(disagreements(outcomes))\n"
    )
    assert "| 2.000 (2.000) 1 MB | 4.0 | > 60 s | > 120 |" in out
    assert "c: embedded 5, duckdb 6" in out


def test_cases_can_be_listed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--list"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "tc-grid150" in done.stdout and "duckdb" in done.stdout


def test_steps_and_search_find_the_same_cycles() -> None:
    from bench import search_cyclic

    table = pa.table({"A": [1, 2, 3, 3, 4, 1], "B": [2, 3, 1, 4, 1, 3]})
    relation, domain = search_cyclic._stored(table)
    found = search_cyclic._proposed(relation, domain, search_cyclic.CYCLE)
    assert found == 6  # 1 2 3 and 1 3 4, each from three corners
    for grade in search_cyclic.GRADES:
        assert search_cyclic._searched(relation, search_cyclic.CYCLE, grade) == found
