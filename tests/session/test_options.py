"""What users may ask of a run: checked in one place, from Python and from the command line."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

import caladan as cal
from caladan.cli import main
from caladan.data.output import FORMATS
from caladan.join.estimates import GRADES as BY_NAME, grade_named
from caladan.language import LANGUAGES
from caladan.program.diagnostics import CaladanError
from caladan.program.options import (
    GRADE_ALIASES,
    GRADES,
    STRATEGIES,
    EngineName,
    FileFormat,
    LanguageName,
    Options,
    RunOptions,
    check_options,
)

PROGRAM = "p(1). query p(X)."

WRONG = [
    ({"timeout": "5"}, "timeout must be a number of seconds greater than 0, not '5'"),
    ({"timeout": float("nan")}, "timeout must be a number of seconds greater than 0, not nan"),
    ({"timeout": -1}, "timeout must be a number of seconds greater than 0, not -1"),
    ({"timeout": 0}, "timeout must be a number of seconds greater than 0, not 0"),
    ({"timeout": True}, "timeout must be a number of seconds greater than 0, not True"),
    ({"timeout": [5]}, "timeout must be a number of seconds greater than 0, not [5]"),
    ({"max_facts": True}, "max_facts must be a whole number greater than 0, not True"),
    ({"max_facts": "9"}, "max_facts must be a whole number greater than 0, not '9'"),
    ({"max_rounds": 0}, "max_rounds must be a whole number greater than 0, not 0"),
    ({"max_rounds": -1}, "max_rounds must be a whole number greater than 0, not -1"),
    ({"max_rounds": 1.5}, "max_rounds must be a whole number greater than 0, not 1.5"),
    ({"max_rounds": np.array([1, 2])}, "max_rounds must be a whole number greater than 0"),
    ({"memory": "x"}, "memory must be a number of bytes greater than 0, or a size such as '500m'"),
    ({"memory": -4}, "memory must be a number of bytes greater than 0"),
    ({"memory": 1e9}, "memory must be a number of bytes greater than 0"),
    ({"strategy": "nope"}, "strategy must be one of single, cubed, pivoted, meshed, frame, not"),
    ({"strategy": 3}, "strategy must be one of single, cubed, pivoted, meshed, frame, not 3"),
    ({"search": "nope"}, "search must be one of jessica, paul, ghanima, leto, rows, values"),
    ({"strategy": "frame", "search": "paul"}, "strategy frame cannot take search: its joins are"),
    ({"permissive": "no"}, "permissive must be True or False, not 'no'"),
    ({"checkpoint": ""}, "checkpoint must be the path or URI of a folder, not ''"),
    ({"checkpoint": 5}, "checkpoint must be the path or URI of a folder, not 5"),
    ({"nope": 1}, "there is no option 'nope'; there are max_rounds, max_facts, timeout"),
]


@pytest.mark.parametrize("engine", ["embedded", "reference"])
@pytest.mark.parametrize(("given", "told"), WRONG, ids=lambda each: str(each)[:40])
def test_what_makes_no_sense(given: dict[str, Any], told: str, engine: str) -> None:
    db = cal.connect(engine)
    for call in (
        lambda: db.run(PROGRAM, **given),
        lambda: db.query("p(X)", **given),
        lambda: db.sql("SELECT 1 AS a", **given),
    ):
        with pytest.raises(cal.CaladanError) as caught:
            call()
        assert str(caught.value).startswith(f"error[C050]: {told}")
        assert caught.value.exit_code == 2


def test_all_that_makes_no_sense_is_told_at_once() -> None:
    with pytest.raises(cal.CaladanError) as caught:
        check_options({"timeout": "5", "max_facts": 0, "stratgy": "frame"})
    assert [d.message.partition(" ")[0] for d in caught.value.diagnostics] == [
        "timeout", "max_facts", "there",
    ]  # fmt: skip
    assert caught.value.diagnostics[2].help == "did you mean `strategy`?"


def test_near_names_are_offered() -> None:
    for given, near in ({"strategy": "mesh"}, "meshed"), ({"search": "pual"}, "paul"):
        with pytest.raises(cal.CaladanError, match=f"did you mean `{near}`"):
            check_options(given)


def test_what_makes_sense() -> None:
    assert check_options({}) == Options()
    assert check_options(dict.fromkeys(get_type_hints(RunOptions))) == Options()
    assert check_options({"timeout": np.float32(2), "max_rounds": np.int64(3)}) == Options(
        3, timeout=2.0
    )
    assert check_options({"timeout": float("inf")}).timeout is None
    assert (
        check_options({"memory": "4g"}).memory
        == check_options({"memory": 4 << 30}).memory
        == 4 << 30
    )
    assert check_options({"memory": "512"}).memory == 512
    assert check_options({"checkpoint": Path("there")}).checkpoint == str(Path("there").absolute())
    assert check_options({"checkpoint": "s3://a/b"}).checkpoint == "s3://a/b"


def test_the_names_are_those_of_the_search() -> None:
    assert tuple(BY_NAME) == GRADES


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--timeout", "nan"), "timeout must be"),
        (("--timeout", "-1"), "timeout must be"),
        (("--max-rounds", "0"), "max_rounds must be"),
        (("--max-facts", "-5"), "max_facts must be"),
        (("--memory", "x"), "memory must be"),
        (("--strategy", "nope"), "--strategy: 'nope' is none of single, cubed"),
        (("--search", "nope"), "--search: 'nope' is none of jessica, paul"),
        (("--checkpoint", ""), "checkpoint must be"),
    ],
)
def test_on_the_command_line(
    arguments: tuple[str, ...], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.dl"
    path.write_text(PROGRAM)
    assert main(("run", str(path), "--engine", "embedded", *arguments)) == 2
    assert capsys.readouterr().err.startswith(f"error[C050]: {told}")


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda db: db.run(PROGRAM, [1]), "params must map names to values, not be a list"),
        (lambda db: db.run(PROGRAM, "a=1"), "params must map names to values, not be a str"),
        (lambda db: db.run(PROGRAM, {1: 2}), "the name of a parameter is text, not a int"),
        (lambda db: db.sql("SELECT 1", [1]), "params must map names to values, not be a list"),
        (lambda db: db.explain(PROGRAM, params=[1]), "params must map names to values"),
        (lambda db: db.check(PROGRAM, [1]), "params must map names to values"),
        (lambda db: db.run(5), "a program is text, or the path of a file, not a int"),
        (lambda db: db.run(None), "a program is text, or the path of a file, not a NoneType"),
        (lambda db: db.run(b"p(1)."), "a program is text, or the path of a file, not a bytes"),
        (lambda db: db.query(5), "a goal is text, not a int"),
        (lambda db: db.sql(5), "a query is text, not a int"),
        (lambda db: db.add(5, [(1,)]), "the name of a relation is text, not a int"),
        (
            lambda db: db.add("p", "p.csv", heder=True),
            "there is no option 'heder'",
        ),
        (lambda db: cal.connect(5), "an engine is a name or a SparkSession, not a int"),
        (lambda db: cal.connect("spark", master=5), "master is the URL of a Spark master"),
        (lambda db: cal.connect("spark", conf=["a"]), "conf maps settings of Spark"),
        (lambda db: cal.connect("spark", conf={"a": [1]}), "conf has [1] for 'a', which is no"),
        (lambda db: db.run(PROGRAM, language=3), "there is no language `3`"),
        (lambda db: db.explain(PROGRAM, 3), "there is no stage `3`"),
        (lambda db: db.run(PROGRAM).answer.write(3), "a path is text or a pathlib.Path, not a int"),
    ],
)
def test_what_is_of_the_wrong_kind(call: Callable[[Any], object], told: str) -> None:
    with pytest.raises(cal.CaladanError) as caught:
        call(cal.connect("reference"))
    assert str(caught.value).startswith(f"error[C050]: {told}")


def test_they_reach_rules_that_sql_reads() -> None:
    with cal.connect("embedded") as db:
        db.run("n(1). n(Y) <- n(X), X < 100, Y = X + 1.")
        assert db.sql("SELECT count(*) AS c FROM n").rows() == [(100,)]
        with pytest.raises(cal.Stopped, match="5 rounds were not enough to finish `n`"):
            db.sql("SELECT count(*) AS c FROM n", max_rounds=5, keep=False)


@pytest.mark.parametrize("command", ["run", "test", "explain"])
def test_they_are_the_same_for_every_command(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "n.dl"
    path.write_text("n(1). n(Y) <- n(X), X < 100, Y = X + 1. expect n(3). query n(X).")
    engine = ["--engine", "embedded"]
    assert main([command, str(path), *engine, "--search", "nope"]) != 0
    assert "error[C050]: --search: 'nope' is none of jessica, paul" in capsys.readouterr().err
    assert main([command, str(path), *engine, "--search", "leto", "--memory", "1g"]) == 0
    if command != "explain":
        assert main([command, str(path), *engine, "--max-rounds", "5"]) != 0
        assert "5 rounds were not enough to finish `n`" in capsys.readouterr().err


def test_engines_are_asked_only_what_all_of_them_answer() -> None:
    """The protocol of engines is whole: nobody has to look whether one has a method."""
    sources = (Path(cal.__file__).parent).rglob("*.py")
    asked = re.compile(r"""getattr\([\w.()]*_?(engine|started\(\)), """)
    assert not [path for path in sources if asked.search(path.read_text(encoding="utf-8"))]


def test_grades_have_plain_names() -> None:
    for plain, seed in GRADE_ALIASES.items():
        assert check_options({"search": plain}).search == seed
        assert grade_named(plain).name == seed
    with pytest.raises(CaladanError, match="did you mean `exact`"):
        check_options({"search": "exct"})


def test_names_are_literal_types() -> None:
    """An editor lists them, and a type checker knows a wrong one."""
    hints = get_type_hints(RunOptions)
    assert set(STRATEGIES) <= set(get_args(get_args(hints["strategy"])[0]))
    assert {*GRADES, *GRADE_ALIASES} == set(get_args(get_args(hints["search"])[0]))
    connect = inspect.signature(cal.connect).parameters["engine"].annotation
    assert "EngineName" in connect
    assert set(get_args(EngineName)) == {"spark", "embedded", "reference"}
    assert set(get_args(LanguageName)) == set(LANGUAGES)
    assert set(get_args(FileFormat)) == {*FORMATS.values(), "delta"}
